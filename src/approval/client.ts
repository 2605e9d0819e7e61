import { settledWithin } from "../base/signals.ts";
import { AsyncQueue } from "../base/queue.ts";
import { type Logger, stderrLogger } from "../base/log.ts";
import { directClient } from "../base/http.ts";
import type { Approver } from "./channel.ts";
import { describeCall, isIdOf } from "./call_text.ts";
import { type ApprovalCall, ApprovalRequest } from "./request.ts";
import { answerText, APPROVAL_PROTOCOL, type ApproveMessage, parseServerMessage } from "./wire.ts";

/** Options of {@linkcode ApprovalClient.connect}. */
export interface ApprovalClientOptions {
  /** The application's door of a tool server, such as `http://127.0.0.1:41234`. */
  url: string | URL;
  /** The token of that door. */
  token: string;
  /** Decides each request. Called with one after the other: the next one comes when it is done. */
  onRequest: Approver;
  /**
   * How long the connection may take, in milliseconds. A tool server lets a second client wait for
   * the first one to leave.
   *
   * @default {10000}
   */
  connectTimeoutMs?: number;
  /** Told of requests on which `onRequest` fails. They are rejected. */
  log?: Logger;
}

/**
 * Decides a tool server's approval requests from another process.
 *
 * @example
 * ```ts
 * import { ApprovalClient } from "@ipybox/ipybox/approval";
 *
 * async function approveReading(url: string, token: string): Promise<void> {
 *   await using client = await ApprovalClient.connect({
 *     url,
 *     token,
 *     onRequest: async (request) => {
 *       if (request.toolName.startsWith("read_")) await request.accept();
 *       else await request.reject("reading only");
 *     },
 *   });
 *   await client.closed;
 * }
 * ```
 */
export class ApprovalClient implements AsyncDisposable {
  /** Resolves, never rejects, when the connection has ended. */
  readonly closed: Promise<void>;

  readonly #socket: WebSocket;
  readonly #options: ApprovalClientOptions;
  readonly #open = new Map<string, ApprovalRequest>();
  readonly #queue = new AsyncQueue<ApprovalRequest>();
  readonly #log: Logger;

  private constructor(socket: WebSocket, options: ApprovalClientOptions) {
    this.#socket = socket;
    this.#options = options;
    this.#log = options.log ?? stderrLogger();
    const closed = Promise.withResolvers<void>();
    this.closed = closed.promise;
    socket.onmessage = ({ data }) => this.#receive(data);
    socket.onclose = () => {
      this.#lose();
      closed.resolve();
    };
    this.#decideAll();
  }

  /**
   * Connects to a tool server and becomes its approver.
   *
   * @param options Where it is, its token, and who decides.
   * @returns The connected client.
   * @throws {Error} It cannot be reached, the token is wrong, or another approver stays.
   */
  static async connect(options: ApprovalClientOptions): Promise<ApprovalClient> {
    const { token, connectTimeoutMs = 10_000 } = options;
    const url = new URL("/approval", options.url);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    using http = new DisposableStack(); // an open socket does without it
    const socket = new WebSocket(url, {
      client: http.adopt(directClient(url.hostname), (client) => client.close()),
      protocols: [APPROVAL_PROTOCOL],
      headers: { authorization: `Bearer ${token}` },
    });
    const opened = Promise.withResolvers<void>();
    socket.onopen = () => opened.resolve();
    socket.onerror = (event) => opened.reject(new Error(cannotConnect(url, reasonOf(event))));
    const timer = setTimeout(() => {
      opened.reject(new Error(cannotConnect(url, `no answer within ${connectTimeoutMs / 1000} s`)));
      socket.close();
    }, connectTimeoutMs);
    // Listens from the start: the first request may come with the answer to the upgrade.
    const client = new ApprovalClient(socket, options);
    try {
      await opened.promise;
    } finally {
      clearTimeout(timer);
      socket.onopen = null;
      socket.onerror = null; // a later error also closes, which is what counts
    }
    return client;
  }

  /** Disconnects. What is undecided is refused. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#socket.close();
    await settledWithin(this.closed, CLOSE_MS);
  }

  #receive(data: unknown): void {
    const message = typeof data === "string" ? parseServerMessage(data) : undefined;
    switch (message?.method) {
      case undefined:
        return this.#log.warn("Ignored an unknown message on the approval WebSocket");
      case "approve":
        return this.#add(message);
      case "withdraw":
        return this.#open.get(message.params.id)?.withdraw({ accepted: false, ...message.params });
    }
  }

  #add(message: ApproveMessage): void {
    const { id, params } = message;
    const call = callOf(message);
    if (!isIdOf(id, call)) {
      this.#log.error(`Rejected a request whose id is that of another call: ${describeCall(call)}`);
      const reason = "The approver was shown another call";
      const refusal = { accepted: false, type: "approval_rejected", reason } as const;
      return this.#socket.send(answerText(id, refusal, false));
    }
    const request: ApprovalRequest = new ApprovalRequest(call, {
      id,
      scopes: params.scopes,
      onAnswer: (answer) => {
        if (this.#socket.readyState !== WebSocket.OPEN) return Promise.resolve(false);
        const edited = answer.accepted && answer.arguments !== params.tool_args;
        this.#socket.send(answerText(id, answer, edited));
        return Promise.resolve(true);
      },
    });
    this.#open.set(id, request);
    request.response.then(() => this.#open.delete(id));
    this.#queue.push(request);
  }

  async #decideAll(): Promise<void> {
    for await (const request of this.#queue) {
      if (request.signal.aborted) continue;
      try {
        await this.#options.onRequest(request);
      } catch (error) {
        this.#log.error(`Approver failed on ${request}: ${error}`);
        await request.reject("Approver failed");
      }
    }
  }

  #lose(): void {
    const reason = "Approval channel disconnected";
    for (const request of this.#open.values()) {
      request.withdraw({ accepted: false, type: "approval_unavailable", reason });
    }
    this.#queue.end();
  }
}

function callOf({ params }: ApproveMessage): ApprovalCall {
  return {
    kind: params.kind,
    serverName: params.server_name,
    toolName: params.tool_name,
    arguments: params.tool_args,
    annotations: params.annotations,
    callId: params.call_id,
    title: params.title,
    description: params.description,
    server: params.server_launch === undefined ? undefined : { launch: params.server_launch },
    source: params.source,
    changes: params.changes,
  };
}

/** How long the closing handshake may take. */
const CLOSE_MS = 2000;

function cannotConnect(url: URL, reason: string): string {
  return `Cannot connect to the approval WebSocket at ${url.host}: ${reason}`;
}

function reasonOf(event: Event): string {
  return event instanceof ErrorEvent ? event.message : "connection failed";
}
