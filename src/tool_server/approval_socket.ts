import type { ApprovalChannel } from "../approval/channel.ts";
import type { ApprovalRequest, ApprovalResponse } from "../approval/request.ts";
import { APPROVAL_PROTOCOL, approveText, parseAnswer, withdrawText } from "../approval/wire.ts";
import type { Logger } from "../log.ts";
import { Refused } from "./door.ts";

/** How long a second approver waits for the first one to leave. */
const TURN_MS = 5000;
/** How long a socket may take to open, and how long it is kept without a sign of life. */
const OPEN_MS = 10_000;
const IDLE_S = 30;
/** Longer messages end the connection at the other side. */
const MAX_FRAME_CHARACTERS = 15 * 2 ** 20;

/**
 * Makes a WebSocket the approver of a channel. Its end detaches it, and refuses what is undecided.
 */
export async function upgradeApprover(
  request: Request,
  channel: ApprovalChannel,
  log: Logger,
): Promise<{ response: Response; socket: WebSocket }> {
  if (request.headers.get("upgrade")?.toLowerCase() !== "websocket") {
    throw new Refused(426, "Use a WebSocket");
  }
  const offered = request.headers.get("sec-websocket-protocol")?.split(",") ?? [];
  const protocol = offered.some((name) => name.trim() === APPROVAL_PROTOCOL);
  await turn(channel);
  const approver = new SocketApprover(log);
  const attached = channel.attach((asked) => approver.ask(asked), { attended: true });
  try {
    const { socket, response } = Deno.upgradeWebSocket(request, {
      idleTimeout: IDLE_S,
      ...(protocol ? { protocol: APPROVAL_PROTOCOL } : {}),
    });
    approver.use(socket, () => attached[Symbol.dispose]());
    return { socket, response };
  } catch {
    attached[Symbol.dispose]();
    throw new Refused(400, "Malformed WebSocket request");
  }
}

async function turn(channel: ApprovalChannel): Promise<void> {
  try {
    await channel.whenFree(AbortSignal.timeout(TURN_MS));
  } catch {
    throw new Refused(409, "Another approver is connected");
  }
}

/** What a client is told of a request that was allowed on a page. */
const ELSEWHERE = { accepted: false, type: "cancelled", reason: "Decided elsewhere" } as const;

/** Shows requests on a socket and takes its answers. */
class SocketApprover {
  readonly #open = new Map<string, ApprovalRequest>();
  /** What this approver has answered itself. */
  readonly #answered = new WeakSet<ApprovalRequest>();
  readonly #log: Logger;
  #socket: WebSocket | undefined;

  constructor(log: Logger) {
    this.#log = log;
  }

  use(socket: WebSocket, detach: () => void): void {
    this.#socket = socket;
    const timer = setTimeout(() => {
      detach(); // a caller that left during the upgrade is never heard of again
      socket.close();
    }, OPEN_MS);
    socket.onopen = () => {
      clearTimeout(timer);
      for (const request of this.#open.values()) this.#show(request);
    };
    socket.onmessage = ({ data }) => this.#receive(data);
    socket.onclose = () => {
      clearTimeout(timer);
      detach();
    };
    socket.onerror = () => {
      clearTimeout(timer);
      detach();
    };
  }

  ask(request: ApprovalRequest): void {
    this.#open.set(request.id, request);
    request.response.then((response) => this.#forget(request, response));
    this.#show(request);
  }

  #show(request: ApprovalRequest): void {
    if (this.#socket?.readyState !== WebSocket.OPEN) return; // shown when it opens
    const text = approveText(request);
    if (text.length > MAX_FRAME_CHARACTERS) {
      const reason = "The arguments are too large to be shown on the approval WebSocket";
      request.withdraw({ accepted: false, type: "approval_unavailable", reason });
    } else {
      this.#socket.send(text);
    }
  }

  #receive(data: unknown): void {
    const answer = typeof data === "string" ? parseAnswer(data) : undefined;
    const request = answer === undefined ? undefined : this.#open.get(answer.id);
    if (answer === undefined || request === undefined) {
      return this.#log.warn("Ignored a message of the approver that answers nothing");
    }
    this.#answered.add(request);
    const { decision } = answer;
    if (decision === true) this.#settle(request, request.accept());
    else if (decision === false) this.#settle(request, request.reject());
    else if (decision === undefined) {
      this.#settle(request, request.reject("The approver's answer was malformed"));
    } else if (decision.approved) {
      const { arguments: edited, remember } = decision;
      this.#settle(request, request.accept({ arguments: edited, remember }));
    } else {
      const { reason, remember } = decision;
      this.#settle(request, request.reject(reason, { remember }));
    }
  }

  #settle(request: ApprovalRequest, answered: Promise<boolean>): void {
    answered.catch((error) => {
      const problem = error instanceof TypeError ? error.message : String(error);
      return request.reject(`The approver's answer cannot be used: ${problem}`);
    });
  }

  #forget(request: ApprovalRequest, response: ApprovalResponse): void {
    this.#open.delete(request.id);
    if (this.#answered.has(request)) return;
    this.#withdraw(request.id, response.accepted ? ELSEWHERE : response);
  }

  #withdraw(id: string, response: ApprovalResponse & { accepted: false }): void {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(withdrawText(id, response));
  }
}
