import { Deadline } from "../base/deadline.ts";
import { messageOf } from "../base/message_of.ts";
import type { ApprovalChannel } from "../approval/channel.ts";
import type { ApprovalPage } from "../approval/page/page.ts";
import type { Refusal } from "../approval/question_queue.ts";
import type { ElicitationChannel } from "../approval/questions.ts";
import { ApprovalRequest } from "../approval/request.ts";
import {
  APPROVAL_PROTOCOL,
  parseAnswer,
  type PersonRequest,
  QUESTION_PROTOCOL,
  readAnswer,
  requestText,
  withdrawText,
} from "../approval/wire.ts";
import type { Logger } from "../base/log.ts";
import { parseJson } from "../json/plain.ts";
import { parseServerParams } from "../mcp/params.ts";
import {
  jsonResponse,
  readJsonBody,
  Refused,
  refusePages,
  requireMethod,
  requireToken,
} from "./http_checks.ts";
import { OpenSockets, PageRoutes, type PageRoutesOptions } from "./page_routes.ts";
import type { ToolRunner } from "./runner.ts";
import { errorText } from "./wire.ts";

/** Options of {@linkcode ApprovalApi}. */
interface ApprovalApiOptions extends PageRoutesOptions {
  /** The servers and the approvals. */
  readonly runner: ToolRunner;
  readonly page: ApprovalPage;
  /** The application's token, which never enters the sandbox. */
  readonly token: string;
}

/** The door for the application: approvals, the registry, and reset. */
export class ApprovalApi {
  readonly #options: ApprovalApiOptions;
  readonly #sockets = new OpenSockets();
  readonly #pages: PageRoutes;

  /** @param options The services behind the door, and its token. */
  constructor(options: ApprovalApiOptions) {
    this.#options = options;
    this.#pages = new PageRoutes(options);
  }

  /**
   * Answers a request.
   *
   * | request | does |
   * | --- | --- |
   * | `GET /status` | reports that the door is open |
   * | `GET /approval` | upgrades to the approval WebSocket |
   * | `POST /page-link` | makes a link to the approval page |
   * | `POST /reset` | refuses pending approvals, cancels calls, stops the servers |
   * | `GET /servers` | lists the names of the registered servers |
   * | `PUT /servers/NAME` | registers a server; the body is its parameters |
   * | `DELETE /servers/NAME` | removes a server |
   * | `GET /`, `/page/…` | the approval page, for browsers: see {@linkcode PageRoutes} |
   *
   * Everything but the page needs the token, and refuses requests of web pages.
   */
  async handle(request: Request): Promise<Response> {
    // Without parsing the URL: its host has not been checked yet and may be missing.
    if (/^[\w+]+:\/\/[^/]*\/(?:page\/|$)/.test(request.url)) {
      return await this.#pages.handle(request);
    }
    try {
      refusePages(request);
      requireToken(request, this.#options.token);
      return await this.#route(request);
    } catch (error) {
      return this.#failure(error);
    }
  }

  /** Closes the WebSockets of approvers and pages. */
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
    const { response, socket } = await upgradeApprover(request, runner, log);
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
    const body = await readJsonBody(request, maxBodyBytes);
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
    return parseJson(text);
  } catch {
    throw new Refused(400, "The body is not JSON");
  }
}

/** How long a second approver waits for the first one to detach. */
const TURN_MS = 5000;
/** The time limit for a socket to open, and how long it is kept without a sign of life. */
const OPEN_MS = 10_000;
const IDLE_S = 30;
/** The client ends the connection if a message is longer. */
const MAX_FRAME_CHARACTERS = 15 * 2 ** 20;

/**
 * Makes a WebSocket the approver and, if it offers to, the answerer of questions, until it closes.
 */
async function upgradeApprover(
  request: Request,
  { channel, elicitations }: ToolRunner,
  log: Logger,
): Promise<{ response: Response; socket: WebSocket }> {
  if (request.headers.get("upgrade")?.toLowerCase() !== "websocket") {
    throw new Refused(426, "Use a WebSocket");
  }
  const offered = (request.headers.get("sec-websocket-protocol") ?? "").split(",")
    .map((name) => name.trim());
  const protocol = offered.includes(APPROVAL_PROTOCOL);
  const channels = offered.includes(QUESTION_PROTOCOL) ? [channel, elicitations] : [channel];
  await turn(channels);
  const approver = new SocketApprover(log);
  const attached = new DisposableStack();
  try {
    for (const each of channels) {
      attached.use(each.attach((asked: PersonRequest) => approver.ask(asked), { attended: true }));
    }
    const { socket, response } = Deno.upgradeWebSocket(request, {
      idleTimeout: IDLE_S,
      ...(protocol ? { protocol: APPROVAL_PROTOCOL } : {}),
    });
    approver.use(socket, () => attached.dispose());
    return { socket, response };
  } catch {
    attached.dispose();
    throw new Refused(400, "Malformed WebSocket request");
  }
}

/** Waits until nobody is attached to any of the channels. */
async function turn(channels: readonly (ApprovalChannel | ElicitationChannel)[]): Promise<void> {
  const signal = AbortSignal.timeout(TURN_MS);
  try {
    while (channels.some(({ attached }) => attached)) {
      for (const channel of channels) await channel.whenFree(signal);
    }
  } catch {
    throw new Refused(409, "Another approver is connected");
  }
}

/** Sent to a client when somebody answered a request on the page. */
const ELSEWHERE: Refusal = { accepted: false, type: "cancelled", reason: "Decided elsewhere" };

/** Sends requests over a socket and receives the answers. */
class SocketApprover {
  readonly #open = new Map<string, PersonRequest>();
  /** The requests that this approver answered itself. */
  readonly #answered = new WeakSet<PersonRequest>();
  readonly #log: Logger;
  #socket: WebSocket | undefined;

  constructor(log: Logger) {
    this.#log = log;
  }

  use(socket: WebSocket, detach: () => void): void {
    this.#socket = socket;
    const opening = new Deadline(OPEN_MS, {
      onPassed: () => {
        detach(); // no event reports a caller that left during the upgrade
        socket.close();
      },
    });
    socket.onopen = () => {
      opening[Symbol.dispose]();
      for (const request of this.#open.values()) this.#show(request);
    };
    socket.onmessage = ({ data }) => this.#receive(data);
    socket.onclose = socket.onerror = () => {
      opening[Symbol.dispose]();
      detach();
    };
  }

  ask(request: PersonRequest): void {
    this.#open.set(request.id, request);
    request.response.then((response) => {
      if ("accepted" in response && !response.accepted) return this.#forget(request, response);
      const { aborted, reason } = request.signal;
      this.#forget(request, aborted ? { ...ELSEWHERE, reason: reason.message } : ELSEWHERE);
    });
    this.#show(request);
  }

  #show(request: PersonRequest): void {
    if (this.#socket?.readyState !== WebSocket.OPEN) return; // shown when it opens
    const text = requestText(request);
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
      return this.#log.warn("Ignored a message from the approver that answers no request");
    }
    this.#answered.add(request);
    const settle = readAnswer(request, answer.result);
    if (settle === undefined) this.#refuse(request, "was malformed");
    else {
      settle().catch((error) => {
        const problem = error instanceof TypeError ? error.message : String(error);
        this.#refuse(request, `cannot be used: ${problem}`);
      });
    }
  }

  /** A malformed answer must not leave the call waiting. */
  #refuse(request: PersonRequest, why: string): void {
    if (request instanceof ApprovalRequest) void request.reject(`The approver's answer ${why}`);
    else {
      this.#log.warn(
        `Cancelled a question from MCP server "${request.serverName}": an answer ${why}`,
      );
      request.cancel();
    }
  }

  #forget(request: PersonRequest, refusal: Refusal): void {
    this.#open.delete(request.id);
    if (this.#answered.has(request) || this.#socket?.readyState !== WebSocket.OPEN) return;
    this.#socket.send(withdrawText(request.id, refusal));
  }
}
