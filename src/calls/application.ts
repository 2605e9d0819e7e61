import { messageOf } from "../base/message_of.ts";
import type { ApprovalChannel } from "../approval/channel.ts";
import type { PageDesk } from "../approval/page/desk.ts";
import type { ApprovalPage } from "../approval/page/page.ts";
import type { ApprovalRequest, ApprovalResponse } from "../approval/request.ts";
import { APPROVAL_PROTOCOL, approveText, parseAnswer, withdrawText } from "../approval/wire.ts";
import type { Logger } from "../base/log.ts";
import { parseServerParams } from "../mcp/params.ts";
import {
  jsonResponse,
  readJsonBody,
  Refused,
  refusePages,
  requireMethod,
  requireToken,
} from "./door.ts";
import { OpenSockets, PageDoor } from "./page_door.ts";
import type { ToolRunner } from "./runner.ts";
import { errorText } from "./wire.ts";

/** What the application's door is made of. */
interface ApplicationDoorOptions {
  /** The servers and the approvals. */
  readonly runner: ToolRunner;
  /** The approval page. */
  readonly page: ApprovalPage;
  /** What the approval page is served from. */
  readonly desk: PageDesk;
  /** Where the door is, such as `127.0.0.1:41234`; known once it is open. */
  readonly host: () => string;
  /** The application's token, which never enters the sandbox. */
  readonly token: string;
  /** The largest request body, in bytes. */
  readonly maxBodyBytes: number;
  /** Told of failures. */
  readonly log: Logger;
}

/** The door for the application: approvals, the registry, and reset. */
export class ApplicationDoor {
  readonly #options: ApplicationDoorOptions;
  readonly #sockets = new OpenSockets();
  readonly #pages: PageDoor;

  /** @param options Who does the work, and the token. */
  constructor(options: ApplicationDoorOptions) {
    this.#options = options;
    this.#pages = new PageDoor(options);
  }

  /**
   * Answers a request.
   *
   * | request | does |
   * | --- | --- |
   * | `GET /status` | says that the door is open |
   * | `GET /approval` | upgrades to the approval WebSocket |
   * | `POST /page-link` | makes a link to the approval page |
   * | `POST /reset` | refuses pending approvals, cancels calls, stops the servers |
   * | `GET /servers` | lists the names of the registered servers |
   * | `PUT /servers/NAME` | registers a server; the body is its parameters |
   * | `DELETE /servers/NAME` | removes a server |
   * | `/page/…` | the approval page, for browsers: see {@linkcode PageDoor} |
   *
   * All but the page needs the token, and refuses whatever comes from a page.
   */
  async handle(request: Request): Promise<Response> {
    // Not by parsing: the host is not checked yet, and may be none.
    if (/^\w+:\/\/[^/]*\/page\//.test(request.url)) return await this.#pages.handle(request);
    try {
      refusePages(request);
      requireToken(request, this.#options.token);
      return await this.#route(request);
    } catch (error) {
      return this.#failure(error);
    }
  }

  /** Closes the approval WebSockets, and those of pages. */
  async close(): Promise<void> {
    await Promise.all([this.#pages.close(), this.#sockets.close()]);
  }

  async #route(request: Request): Promise<Response> {
    const { pathname } = new URL(request.url);
    const { runner } = this.#options;
    const name = /^\/servers\/([^/]+)$/.exec(pathname)?.[1];
    if (name !== undefined) return await this.#server(request, name);
    switch (pathname) {
      case "/status":
        requireMethod(request, "GET");
        return jsonResponse('{"status":"ok"}');
      case "/servers":
        requireMethod(request, "GET");
        return jsonResponse(JSON.stringify({ servers: runner.registry.names }));
      case "/reset":
        requireMethod(request, "POST");
        await runner.reset();
        return jsonResponse('{"reset":"success"}');
      case "/page-link":
        requireMethod(request, "POST");
        return jsonResponse(JSON.stringify({ url: this.#options.page.url() }));
      case "/approval":
        requireMethod(request, "GET");
        return await this.#approval(request);
      default:
        throw new Refused(404, "Unknown path");
    }
  }

  async #approval(request: Request): Promise<Response> {
    const { runner, log } = this.#options;
    const { response, socket } = await upgradeApprover(request, runner.channel, log);
    this.#sockets.add(socket);
    return response;
  }

  async #server(request: Request, name: string): Promise<Response> {
    const { runner, maxBodyBytes } = this.#options;
    if (request.method === "DELETE") {
      const removed = await runner.unregisterServer(name);
      return jsonResponse(JSON.stringify({ removed }), removed ? 200 : 404);
    }
    requireMethod(request, "PUT");
    const body = new TextDecoder().decode(await readJsonBody(request, maxBodyBytes));
    await runner.registerServer(name, parseServerParams(name, parseBody(body)));
    return jsonResponse(JSON.stringify({ registered: name }));
  }

  #failure(error: unknown): Response {
    const { status, message } = error instanceof Refused
      ? error
      : { status: 400, message: messageOf(error) };
    if (!(error instanceof Refused)) this.#options.log.error(`Tool server: ${message}`);
    return jsonResponse(errorText({ type: "tool_server_error", message }), status);
  }
}

function parseBody(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Refused(400, "The body is not JSON");
  }
}

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
async function upgradeApprover(
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
