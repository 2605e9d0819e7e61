import type { Logger } from "../../base/log.ts";
import { LastingServer } from "../../base/lasting_server.ts";
import { LOOPBACK_HOSTS } from "../../base/tokens.ts";
import { checkBody, readBody, Refused } from "../../calls/door.ts";
import type { JsonLimits } from "../../json/measure.ts";
import type { ServerForOptions } from "../connection.ts";
import { isLegacyRequest } from "../sdk.ts";
import { type BearerTokens, EVERYBODY } from "./bearer_tokens.ts";
import { LegacySessions } from "./legacy.ts";
import { ModernHandlers } from "./modern.ts";
import { rpcError, untilSent } from "./answers.ts";
import { checkMessages, inTurn } from "./messages.ts";
import { type AnswerOptions, RequestBudget } from "./request_budget.ts";
import { serveFiles } from "./session_files.ts";
import { type SessionPool, TooManySessionsError } from "./sessions.ts";

/** What an {@linkcode HttpMcpServer} is made of. */
export interface HttpMcpServerOptions {
  readonly pool: SessionPool;
  /** Who may use it; without them, everybody who reaches it. */
  readonly tokens: BearerTokens | undefined;
  readonly hostname: string;
  /** 0 for any that is free. */
  readonly port: number;
  /** Names under which clients may reach it, beside those of this machine's loopback. */
  readonly allowedHosts: readonly string[];
  readonly version: string;
  readonly log: Logger;
  /** Adds more to the server of each connection: see {@linkcode ServerForOptions.extend}. */
  readonly extend?: ServerForOptions["extend"];
}

/** Code and its results pass here, files do not. */
const MAX_BODY_BYTES = 16 * 2 ** 20;
/** Code is one string. The SDK takes dozens of microseconds for a name, in which nobody is answered. */
const MESSAGE_LIMITS: JsonLimits = { maxValues: 20_000, maxNames: 2000 };
/** What MCP over streamable HTTP has requests for. */
const METHODS: readonly string[] = ["POST", "GET", "DELETE"];

/**
 * MCP over streamable HTTP, for clients of both protocol eras, at `/mcp`, and the files of sessions at
 * `/sessions/ID/files/PATH`.
 *
 * Web pages cannot use it: their requests have an `Origin`, or after DNS rebinding the wrong `Host`.
 */
export class HttpMcpServer implements AsyncDisposable {
  /** Where clients connect. */
  readonly url: URL;
  readonly #options: HttpMcpServerOptions;
  readonly #hosts: ReadonlySet<string>;
  readonly #legacy: LegacySessions;
  readonly #modern: ModernHandlers;
  readonly #server: LastingServer;
  readonly #budget: RequestBudget;

  /** Begins to listen. */
  constructor(options: HttpMcpServerOptions) {
    const { pool, version, extend, log, hostname, port, allowedHosts } = options;
    this.#options = options;
    this.#budget = new RequestBudget(options.tokens?.owners.size ?? 1);
    this.#legacy = new LegacySessions(pool, { version, extend });
    this.#modern = new ModernHandlers(pool, { version, extend }, log);
    const handler = (request: Request) => this.#handle(request);
    this.#server = new LastingServer({ hostname, port, handler, log });
    const name = hostname.includes(":") ? `[${hostname}]` : hostname;
    this.url = new URL(`http://${name}:${this.#server.addr.port}/mcp`);
    this.#hosts = new Set(
      [...LOOPBACK_HOSTS, name, ...allowedHosts].map((host) => host.toLowerCase()),
    );
  }

  /** Ends all connections and stops listening. Sessions are the pool's. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.#modern[Symbol.asyncDispose](), this.#legacy[Symbol.asyncDispose]()]);
    await this.#server[Symbol.asyncDispose]();
  }

  async #handle(request: Request): Promise<Response> {
    try {
      return this.#refusal(request) ?? this.#welcome(request) ?? await this.#serve(request);
    } catch (error) {
      if (request.signal.aborted) return new Response(null, { status: 499 }); // nobody gets it
      return this.#failure(error);
    }
  }

  #failure(error: unknown): Response {
    if (error instanceof Refused) return rpcError(error.status, -32600, error.message);
    if (error instanceof TooManySessionsError) return rpcError(503, -32000, error.message);
    this.#options.log.error(`MCP over HTTP: ${error}`);
    return rpcError(500, -32603, "ipybox failed; see its log");
  }

  /** The answer to a request that a web page may have made. */
  #refusal(request: Request): Response | undefined {
    const host = request.headers.get("host") ?? "";
    if (!this.#hosts.has(nameOf(host))) {
      return rpcError(
        421,
        -32000,
        "This host name is not allowed: see --allow-host in `ipybox mcp --help`",
      );
    }
    const origin = request.headers.get("origin");
    // No page is served here, so that nobody has this origin but clients that make it up.
    if (origin !== null && origin.toLowerCase() !== `http://${host.toLowerCase()}`) {
      return rpcError(403, -32000, "Requests from web pages are refused");
    }
    return undefined;
  }

  /** What a person finds who opens the server's address in a browser. */
  #welcome(request: Request): Response | undefined {
    const isPage = request.headers.get("accept")?.includes("text/html") === true;
    const { pathname } = new URL(request.url);
    if (request.method !== "GET" || pathname !== "/" || !isPage) return undefined;
    return new Response(
      `This is the MCP server of ipybox. MCP clients connect to ${this.url.pathname}.\n` +
        "To decide on calls, open the link to the approval page that ipybox prints.\n",
      { headers: { "content-type": "text/plain; charset=utf-8", "cache-control": "no-store" } },
    );
  }

  async #serve(request: Request): Promise<Response> {
    const { tokens } = this.#options;
    const owner = tokens === undefined ? EVERYBODY : tokens.ownerOf(request);
    if (owner === undefined) {
      return rpcError(
        401,
        -32000,
        "A bearer token is required: one of --token-file, or the one that ipybox printed",
        { "www-authenticate": 'Bearer realm="ipybox"' },
      );
    }
    if (new URL(request.url).pathname !== this.url.pathname) {
      const services = { pool: this.#options.pool, budget: this.#budget };
      const file = await serveFiles(request, owner, services);
      return file ?? rpcError(404, -32600, `Use ${this.url.pathname}`);
    }
    if (!METHODS.includes(request.method)) {
      throw new Refused(405, `Use one of ${METHODS.join(", ")}`); // not all can be passed on
    }
    const head = new Request(request.url, { method: request.method, headers: request.headers });
    const { signal } = request;
    if (request.method !== "POST") return await this.#answer(head, { owner, length: 0, signal });
    const { body, length, use } = await this.#read(request, owner);
    try {
      return untilSent(await this.#answer(head, { owner, length, signal }, body), { use });
    } catch (error) {
      use[Symbol.dispose]();
      throw error;
    }
  }

  async #answer(head: Request, came: Came, body?: unknown): Promise<Response> {
    const { owner } = came;
    const isLegacy = await isLegacyRequest(head, body);
    const era = isLegacy ? this.#legacy : this.#modern;
    const answer = (message: unknown) =>
      this.#budget.answer({ ...came, message }, () => era.handle(head, owner, message));
    if (!isLegacy || !Array.isArray(body)) return await answer(body);
    return await inTurn(body, (message) => answer(message).catch((error) => this.#failure(error)));
  }

  /** Reads a body and waits for its turn. */
  async #receive(request: Request, owner: string) {
    using _coming = this.#budget.forBody(owner, lengthOf(request));
    const bytes = await readBody(request, MAX_BODY_BYTES);
    return { bytes, turn: await this.#budget.turn(owner, bytes.length, request.signal) };
  }

  /** Reads and parses a body. `use` counts its memory until it is disposed. */
  async #read(request: Request, owner: string): Promise<Body> {
    const { bytes, turn } = await this.#receive(request, owner);
    using _turn = turn;
    checkBody(bytes, MESSAGE_LIMITS);
    const use = await this.#budget.forRequest(owner, bytes, request.signal);
    try {
      const body: unknown = JSON.parse(new TextDecoder().decode(bytes));
      checkMessages(body);
      return { body, length: bytes.length, use };
    } catch (error) {
      use[Symbol.dispose]();
      throw error instanceof Refused ? error : new Refused(400, "The body is not JSON");
    }
  }
}

/** What came with a message. */
type Came = Pick<AnswerOptions, "owner" | "length" | "signal">;

/** A body that was read. */
interface Body {
  readonly body: unknown;
  readonly length: number;
  readonly use: Disposable;
}

/** The name in a `Host` header, without its port. */
function nameOf(host: string): string {
  return host.replace(/:\d+$/, "").toLowerCase();
}

/** How long a body is; one that does not say so, and so may be as long as any. */
function lengthOf({ headers }: Request): number {
  const length = headers.has("transfer-encoding") ? null : headers.get("content-length");
  return Math.min(Number(length ?? MAX_BODY_BYTES), MAX_BODY_BYTES);
}
