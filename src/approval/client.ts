import { Deadline } from "../base/deadline.ts";
import { settledWithin } from "../base/signals.ts";
import { AsyncQueue } from "../base/queue.ts";
import { type Logger, stderrLogger } from "../base/log.ts";
import { directClient } from "../base/http.ts";
import type { Approver } from "./channel.ts";
import { describeCall, isIdOf } from "./call_text.ts";
import { type Answerer, ElicitationRequest } from "./questions.ts";
import type { Refusal } from "./question_queue.ts";
import { ApprovalRequest } from "./request.ts";
import {
  answerText,
  APPROVAL_PROTOCOL,
  decisionJson,
  parseServerMessage,
  type PersonRequest,
  QUESTION_PROTOCOL,
  type ServerMessage,
} from "./wire.ts";

/** Options of {@linkcode ApprovalClient.connect}. */
export interface ApprovalClientOptions {
  /** The address of the tool server's application endpoint, such as `http://127.0.0.1:41234`. */
  url: string | URL;
  /** The token for that endpoint. */
  token: string;
  /** Decides each request. Called for one request at a time. */
  onRequest: Approver;
  /**
   * Answers each question of an MCP server. Called for one question or request at a time.
   *
   * @default {undefined} others are asked, or the questions are declined
   */
  onQuestion?: Answerer;
  /**
   * The time limit for connecting, in milliseconds. A tool server makes a second client wait until
   * the first one leaves.
   *
   * @default {10000}
   */
  connectTimeoutMs?: number;
  /**
   * Receives failures of `onRequest` and `onQuestion`. The request is then rejected, the question
   * cancelled.
   */
  log?: Logger;
}

/**
 * Decides a tool server's approval requests from another process, and answers its servers'
 * questions.
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
  readonly #open = new Map<string, PersonRequest>();
  readonly #queue = new AsyncQueue<PersonRequest>();
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
   * @param options The server's address and token, and the handlers that decide.
   * @returns The connected client.
   * @throws {Error} It cannot be reached, the token is wrong, or another approver stays connected.
   */
  static async connect(options: ApprovalClientOptions): Promise<ApprovalClient> {
    const { token, onQuestion, connectTimeoutMs = 10_000 } = options;
    const url = new URL("/approval", options.url);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    using http = new DisposableStack(); // an open socket no longer needs it
    const socket = new WebSocket(url, {
      client: http.adopt(directClient(url.hostname), (client) => client.close()),
      protocols: [APPROVAL_PROTOCOL, ...(onQuestion === undefined ? [] : [QUESTION_PROTOCOL])],
      headers: { authorization: `Bearer ${token}` },
    });
    const opened = Promise.withResolvers<void>();
    socket.onopen = () => opened.resolve();
    socket.onerror = (event) => opened.reject(new Error(cannotConnect(url, reasonOf(event))));
    using _deadline = new Deadline(connectTimeoutMs, {
      onPassed: () => {
        const why = `no answer within ${connectTimeoutMs / 1000} s`;
        opened.reject(new Error(cannotConnect(url, why)));
        socket.close();
      },
    });
    // Listens from the start, because the first request may arrive together with the upgrade
    // response.
    const client = new ApprovalClient(socket, options);
    try {
      await opened.promise;
    } finally {
      socket.onopen = null;
      socket.onerror = null; // later errors also close the socket, which is handled
    }
    return client;
  }

  /** Disconnects. Undecided requests are refused. */
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
      case "elicit":
        return this.#add(message);
      case "withdraw":
        return this.#open.get(message.id)?.withdraw(message.refusal);
    }
  }

  #add(message: Exclude<ServerMessage, { method: "withdraw" }>): void {
    const { id } = message;
    if (message.method === "approve" && !isIdOf(id, message.call)) {
      const call = describeCall(message.call);
      this.#log.error(`Rejected a request whose id belongs to another call: ${call}`);
      return void this.#send(id, {
        approved: false,
        reason: "The approver was shown a different call",
      });
    }
    const request = this.#requestOf(message);
    this.#open.set(id, request);
    request.response.then(() => this.#open.delete(id));
    this.#queue.push(request);
  }

  #requestOf(message: Exclude<ServerMessage, { method: "withdraw" }>): PersonRequest {
    const { id } = message;
    if (message.method === "elicit") {
      const onAnswer = (answer: unknown) => this.#send(id, answer);
      return new ElicitationRequest(message.source, message.question, { id, onAnswer });
    }
    const { call, scopes, pattern } = message;
    return new ApprovalRequest(call, {
      id,
      scopes,
      pattern,
      onAnswer: (answer) => {
        const edited = answer.accepted && answer.arguments !== call.arguments;
        return Promise.resolve(this.#send(id, decisionJson(answer, edited)));
      },
    });
  }

  #send(id: string, result: unknown): boolean {
    if (this.#socket.readyState !== WebSocket.OPEN) return false;
    this.#socket.send(answerText(id, result));
    return true;
  }

  async #decideAll(): Promise<void> {
    const { onRequest, onQuestion } = this.#options;
    for await (const request of this.#queue) {
      if (request.signal.aborted) continue;
      try {
        if (request instanceof ApprovalRequest) await onRequest(request);
        else if (onQuestion === undefined) request.decline(); // questions were not requested
        else await onQuestion(request);
      } catch (error) {
        this.#log.error(`Approver failed on ${request}: ${error}`);
        if (request instanceof ApprovalRequest) await request.reject("Approver failed");
        else request.cancel();
      }
    }
  }

  #lose(): void {
    for (const request of this.#open.values()) request.withdraw(DISCONNECTED);
    this.#queue.end();
  }
}

const DISCONNECTED: Refusal = {
  accepted: false,
  type: "approval_unavailable",
  reason: "Approval channel disconnected",
};

/** The time limit for the closing handshake. */
const CLOSE_MS = 2000;

function cannotConnect(url: URL, reason: string): string {
  return `Cannot connect to the approval WebSocket at ${url.host}: ${reason}`;
}

function reasonOf(event: Event): string {
  return event instanceof ErrorEvent ? event.message : "connection failed";
}
