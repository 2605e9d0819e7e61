import { limitedLogger, type Logger } from "../../base/log.ts";
import { HttpServer } from "../../base/http_server.ts";
import { beginWork, watchStalls } from "../../base/stalls.ts";
import { LOOPBACK_HOSTS } from "../../base/tokens.ts";
import { declaredLength, readJsonBody, Refused } from "../../calls/http_checks.ts";
import { parseJson } from "../../json/plain.ts";
import type { ServerForOptions } from "../connection.ts";
import { isLegacyRequest } from "../sdk.ts";
import { type BearerTokens, EVERYBODY } from "./bearer_tokens.ts";
import { LegacySessions } from "./legacy.ts";
import { ModernHandlers } from "./modern.ts";
import { rpcError, usedUntilSent, withUnreadLimit } from "./answers.ts";
import { RequestsInFlight } from "./requests_in_flight.ts";
import { serveFiles } from "./session_files.ts";
import { type SessionPool, TooManySessionsError } from "./sessions.ts";

interface HttpMcpServerOptions extends Pick<ServerForOptions, "version" | "extend"> {
  readonly pool: SessionPool;
  /** The tokens of its clients; `undefined` admits everyone who can reach it. */
  readonly tokens: BearerTokens | undefined;
  readonly hostname: string;
  /** 0 for any free port. */
  readonly port: number;
  /** Host names that clients may use, in addition to the loopback names. */
  readonly allowedHosts: readonly string[];
  readonly log: Logger;
}

/** The largest body. Code is sent in it, files are not. */
const MAX_BODY_BYTES = 16 * 2 ** 20;
/** Code is one string. The SDK blocks for dozens of microseconds for each name. */
const MAX_VALUES = 20_000;
/** The methods of MCP over streamable HTTP. */
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
  readonly #server: HttpServer;
  readonly #stalls: Disposable;
  readonly #inFlight: RequestsInFlight;
  /** Receives failures that clients can cause at will. */
  readonly #log: Logger;

  constructor(options: HttpMcpServerOptions) {
    const { pool, log, hostname, port, allowedHosts } = options;
    this.#options = options;
    this.#log = limitedLogger(log);
    this.#inFlight = new RequestsInFlight((owner) => pool.shareOf(owner));
    this.#legacy = new LegacySessions(pool, options);
    this.#modern = new ModernHandlers(pool, options, log);
    const handler = (request: Request) => this.#handle(request);
    this.#server = new HttpServer({ hostname, port, handler, log });
    // `localhost` has two addresses: another user could have this port on the other one.
    const host = hostname === "localhost" ? this.#server.addr.hostname : hostname;
    const name = host.includes(":") ? `[${host}]` : host;
    this.url = new URL(`http://${name}:${this.#server.addr.port}/mcp`);
    this.#hosts = new Set(
      [...LOOPBACK_HOSTS, name, ...allowedHosts].map((host) => host.toLowerCase()),
    );
    this.#stalls = watchStalls(log);
  }

  /** Closes all connections and stops listening. Sessions belong to the pool. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.#modern[Symbol.asyncDispose](), this.#legacy[Symbol.asyncDispose]()]);
    await this.#server[Symbol.asyncDispose]();
    this.#stalls[Symbol.dispose]();
  }

  async #handle(request: Request): Promise<Response> {
    try {
      return this.#refusal(request) ?? this.#welcome(request) ?? await this.#serve(request);
    } catch (error) {
      if (request.signal.aborted) return new Response(null, { status: 499 }); // nobody receives it
      return this.#failure(error);
    }
  }

  #failure(error: unknown): Response {
    if (error instanceof Refused) return rpcError(error.status, -32600, error.message);
    if (error instanceof TooManySessionsError) return rpcError(503, -32000, error.message);
    this.#log.error(`MCP over HTTP: ${error}`);
    return rpcError(500, -32603, "ipybox failed; see its log");
  }

  /** The response to a request that a web page may have made. */
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
    // No page is served here, so only clients that make up this origin have it.
    if (origin !== null && origin.toLowerCase() !== `http://${host.toLowerCase()}`) {
      return rpcError(403, -32000, "Requests from web pages are refused");
    }
    return undefined;
  }

  /** The response to a person who opens the server's address in a browser. */
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
      const message =
        "A bearer token is required: one of --token-file, or the one that ipybox printed";
      return rpcError(401, -32000, message, { "www-authenticate": 'Bearer realm="ipybox"' });
    }
    const length = request.method === "POST" ? declaredLength(request) ?? MAX_BODY_BYTES : 0;
    const inFlight = this.#inFlight.take(owner, Math.min(length, MAX_BODY_BYTES));
    return await usedUntilSent(inFlight, () => this.#answer(request, owner));
  }

  async #answer(request: Request, owner: string): Promise<Response> {
    if (new URL(request.url).pathname !== this.url.pathname) {
      const file = await serveFiles(request, owner, this.#options.pool);
      return file ?? rpcError(404, -32600, `Use ${this.url.pathname}`);
    }
    const { method, headers } = request;
    if (!METHODS.includes(method)) {
      throw new Refused(405, `Use one of ${METHODS.join(", ")}`); // others cannot be passed on
    }
    const body = method === "POST" ? await bodyOf(request) : undefined;
    const head = new Request(this.url, { method, headers });
    const era = await isLegacyRequest(head, body) ? this.#legacy : this.#modern;
    const handle = () => era.handle(head, owner, body);
    const response = Array.isArray(body) // the SDK answers all messages of a batch at once
      ? await usedUntilSent(this.#inFlight.take(owner, 0, body.length), handle)
      : await handle();
    return withUnreadLimit(response, () => {
      this.#log.warn("MCP over HTTP: ended a response because its client left too much unread");
    });
  }
}

async function bodyOf(request: Request): Promise<unknown> {
  const text = await readJsonBody(request, MAX_BODY_BYTES, MAX_VALUES);
  beginWork(`a request of a client (${text.length} characters)`);
  try {
    return parseJson(text);
  } catch {
    throw new Refused(400, "The body is not JSON");
  }
}

/** The name in a `Host` header, without its port. */
function nameOf(host: string): string {
  return host.replace(/:\d+$/, "").toLowerCase();
}
