import { McpConnectionError, McpLoginRequiredError, ToolCallError } from "../base/errors.ts";
import { limitedLogger, type Logger, silentLogger } from "../base/log.ts";
import { Semaphore } from "../base/mutex.ts";
import { abortable, anySignal, LinkedSignal } from "../base/signals.ts";
import type { ExactObject } from "../json/exact.ts";
import { explainLogin, ForgottenSessionError, startFailure } from "../mcp/start_errors.ts";
import type { CatalogMethod } from "../mcp/catalog.ts";
import type { ServersOptions } from "../executor/options.ts";
import type { ConnectOptions, SessionConnectOptions } from "../mcp/connect.ts";
import type { McpConnection, SendToolOptions, ServerDescription } from "../mcp/connection.ts";
import type { CallToolOptions, ServerHooks } from "../mcp/hooks.ts";
import { Deadline, WaitCount } from "../base/deadline.ts";
import type { ServerParams } from "../mcp/params.ts";
import type { ToolResult } from "../mcp/results.ts";
import type { Tool } from "../mcp/tools.ts";
import { sameParams, type ServerRegistry } from "./registry.ts";
import type { StartApproval } from "./start_approval.ts";
import type { StartEvidence } from "./start_evidence.ts";

/** Options of {@linkcode McpPool}. */
interface McpPoolOptions extends ConnectOptions, ServersOptions {
  /** The servers. */
  readonly registry: ServerRegistry;
  /** Handles what servers report and ask. */
  readonly hooks?: (serverName: string) => ServerHooks;
  /** Decides which servers may be started. */
  readonly starts: Pick<StartApproval, "approveStart" | "unasked">;
}

/** The evidence with which a server may be started. */
type ApprovedStart = Pick<StartEvidence, "settings">;

/** A request on a connection. */
type Use<T> = (connection: McpConnection, signal: AbortSignal) => Promise<T>;

/** The most concurrent requests that one server receives; others wait. */
const MAX_CONCURRENT_CALLS = 64;
/** How many servers start ahead at a time: their starts must leave room for the kernel's. */
const MAX_STARTS_AHEAD = 2;
/** How long a list must stay unchanged: servers that add several tools report each. */
const SETTLE_MS = 100;
const IDLE_MS = 60 * 60_000;

/**
 * The connections to MCP servers: one for each server, opened by its first request.
 *
 * The next request restarts a server that died.
 */
export class McpPool implements AsyncDisposable {
  /** Counts the requests that wait for the start of their server. */
  readonly starting: WaitCount = new WaitCount();
  readonly #options: McpPoolOptions;
  readonly #registry: ServerRegistry;
  readonly #log: Logger;
  readonly #servers = new Map<string, PooledServer>();
  readonly #ending = new Set<Promise<void>>();
  readonly #ahead = new Set<Promise<void>>();
  readonly #startsAhead = new Semaphore(MAX_STARTS_AHEAD);
  #lifetime = new AbortController();

  constructor(options: McpPoolOptions) {
    const { registry, log = silentLogger } = options;
    this.#options = options;
    this.#registry = registry;
    this.#log = limitedLogger(log); // code can have a broken server started at will
  }

  /** Starts or reaches a server that is about to be registered, as its calls would. */
  async connect(
    serverName: string,
    params: ServerParams,
    { settings, signal }: ApprovedStart & { readonly signal: AbortSignal },
  ): Promise<McpConnection> {
    const { hooks, ...connect } = this.#options;
    const { connectMcp } = await import("../mcp/connect.ts"); // large, and many sessions need none
    return await connectMcp(serverName, params, {
      ...connect,
      settings,
      hooks: hooks?.(serverName),
      signal,
    });
  }

  /** Uses a new connection for calls from now on, unless one with the same parameters exists. */
  adopt(serverName: string, connection: McpConnection): boolean {
    return this.#server(serverName).adopt(connection);
  }

  /** Lists a server's current tools. */
  async listTools(serverName: string, signal?: AbortSignal): Promise<readonly unknown[]> {
    return await this.#use(
      serverName,
      signal,
      async (connection, signal) => (await connection.describe({ signal })).tools,
    );
  }

  /** Requests everything for a server's API, once the server reports no more changes of its tools. */
  async describe(serverName: string, signal?: AbortSignal): Promise<ServerDescription> {
    return await this.#use(
      serverName,
      signal,
      (connection, signal) => connection.describe({ settleMs: SETTLE_MS, signal }),
    );
  }

  /** Finds a file that a result names and that only its server can reach. */
  async ownFileIn(serverName: string, result: ToolResult): Promise<string | undefined> {
    return await this.#servers.get(serverName)?.connected?.ownFileIn(result);
  }

  /** The names of a server's tools, as far as they are known. */
  knownNames(serverName: string): readonly string[] {
    return this.#servers.get(serverName)?.connected?.knownTools.map(({ name }) => name) ?? [];
  }

  /** Finds a tool in a server's list. */
  async findTool(
    serverName: string,
    toolName: string,
    signal?: AbortSignal,
  ): Promise<Tool | undefined> {
    const server = this.#server(serverName);
    const known = server.connected?.knownTool(toolName); // takes no turn, unlike a request
    if (known === undefined) {
      return await this.#use(serverName, signal, (connection, signal) => {
        return connection.findTool(toolName, signal);
      });
    }
    server.idle.restart(); // the caller is about to call the tool, once approved
    return known;
  }

  /**
   * Calls an approved tool, at most once: a call is sent again only if the server says that it did not
   * accept the first one, because it no longer knows the session.
   */
  async callTool(
    serverName: string,
    toolName: string,
    args: ExactObject,
    options: SendToolOptions = {},
  ): Promise<ToolResult> {
    const use: Use<ToolResult> = async (connection, signal) =>
      await connection.callTool(toolName, args, { ...options, signal });
    return await this.#use(serverName, options.signal, use, (error) => error.certain);
  }

  /** Sends an approved request for resources or prompts. */
  async catalog(
    serverName: string,
    method: CatalogMethod,
    params: Readonly<Record<string, unknown>>,
    options: CallToolOptions = {},
  ): Promise<Readonly<Record<string, unknown>>> {
    return await this.#use(serverName, options.signal, async (connection, signal) => {
      return await connection.catalog(method, params, { ...options, signal });
    });
  }

  /** The servers that run or are about to, sorted by name. */
  get running(): string[] {
    return [...this.#servers].filter(([, { runs }]) => runs).map(([serverName]) => serverName)
      .sort();
  }

  /** Whether requests to a server wait for its start. */
  isStarting(serverName: string): boolean {
    const server = this.#servers.get(serverName);
    return server?.runs === true && server.connected === undefined;
  }

  /**
   * Starts servers in the background, so that their first requests find them running. Servers that
   * the user has not registered are left out: starting them may need an approval. If a start fails,
   * the server's next request tries again.
   */
  startAhead(serverNames: readonly string[]): void {
    for (const serverName of serverNames) {
      const start: Promise<void> = this.#startAhead(serverName)
        .catch((error: unknown) => {
          this.#log.debug(`MCP server "${serverName}" was not started ahead: ${error}`);
        })
        .finally(() => void this.#ahead.delete(start));
      this.#ahead.add(start);
    }
  }

  async #startAhead(serverName: string): Promise<void> {
    const { signal } = this.#lifetime;
    using _place = await this.#startsAhead.acquire(signal);
    const params = this.requireRegistered(serverName);
    const start = await this.#options.starts.unasked(serverName, params);
    if (start === undefined) return;
    signal.throwIfAborted(); // a server that starts now would outlive the pool
    const server = this.#server(serverName);
    using _use = server.idle.use();
    await server.connection(start);
  }

  /** Cancels running calls and stops all servers. The next request starts its server again. */
  async reset(): Promise<void> {
    const lifetime = this.#lifetime;
    this.#lifetime = new AbortController();
    lifetime.abort(new DOMException("The tool server was reset", "AbortError"));
    for (const serverName of [...this.#servers.keys()]) this.#end(serverName);
    await Promise.all([...this.#ending, ...this.#ahead]);
  }

  /** Stops one server, for example when it was removed from the registry. */
  async drop(serverName: string): Promise<void> {
    this.#end(serverName);
    await Promise.all(this.#ending);
  }

  /** Stops all servers. */
  async [Symbol.asyncDispose](): Promise<void> {
    const ended = this.reset();
    this.#lifetime.abort(new DOMException("The tool server was stopped", "AbortError"));
    await ended;
  }

  /** Sends a request, and repeats it once if the server had lost the session and it may be repeated. */
  async #use<T>(
    serverName: string,
    ownSignal: AbortSignal | undefined,
    use: Use<T>,
    mayRepeat: (error: ForgottenSessionError) => boolean = () => true, // it has no side effects
  ): Promise<T> {
    using linked = new LinkedSignal(ownSignal, this.#lifetime.signal);
    const { signal } = linked;
    const server = this.#server(serverName);
    using _turn = await server.turn(signal).catch((error) => {
      throw cancelled(error);
    });
    const connect = () => this.#connection(serverName, server, signal);
    try {
      return await use(server.connected ?? await connect(), signal);
    } catch (error) {
      if (!(error instanceof ForgottenSessionError) || !mayRepeat(error)) throw error;
      return await use(await connect(), signal);
    }
  }

  async #connection(
    serverName: string,
    server: PooledServer,
    signal: AbortSignal,
  ): Promise<McpConnection> {
    this.starting.count(1);
    try {
      const approved = this.#options.starts.approveStart(serverName, server.params, signal);
      const start = await approved.catch((error) => {
        throw signal.aborted ? cancelled(error) : error;
      });
      return await abortable(server.connection(start), signal).catch((error) => {
        throw signal.aborted
          ? cancelled(error)
          : this.#unreachable(serverName, server.params, error);
      });
    } finally {
      this.starting.count(-1);
    }
  }

  /** Throws if a server is not registered. */
  requireRegistered(serverName: string): ServerParams {
    const params = this.#registry.get(serverName);
    if (params === undefined) throw unknownServer(serverName, this.#registry.names);
    return params;
  }

  #server(serverName: string): PooledServer {
    const params = this.requireRegistered(serverName);
    const present = this.#servers.get(serverName);
    if (present !== undefined && sameParams(params, present.params)) return present;
    if (present !== undefined) {
      this.#log.info(`MCP server "${serverName}" was registered again; restarting it`);
      this.#end(serverName);
    }
    const { hooks, ...connect } = this.#options;
    const server = new PooledServer({
      serverName,
      params,
      connect: { ...connect, log: this.#log, hooks: hooks?.(serverName) },
      idleMs: connect.serverIdleMs ?? IDLE_MS,
    });
    this.#servers.set(serverName, server);
    return server;
  }

  /** Stops a server without waiting, so that a new one can replace it immediately. */
  #end(serverName: string): void {
    const server = this.#servers.get(serverName);
    if (server === undefined) return;
    this.#servers.delete(serverName);
    const ending: Promise<void> = server[Symbol.asyncDispose]()
      .catch((error) => this.#log.error(`Cannot stop MCP server "${serverName}": ${error}`))
      .then(() => void this.#ending.delete(ending));
    this.#ending.add(ending);
  }

  #unreachable(serverName: string, params: ServerParams, error: unknown): ToolCallError {
    if (!(error instanceof Error)) throw error;
    if (error instanceof McpLoginRequiredError) return explainLogin(error);
    const details = error instanceof McpConnectionError
      ? { exitCode: error.exitCode, signal: error.signal }
      : {};
    const message = startFailure(serverName, params, error);
    return new ToolCallError("server_unreachable", message, details, { cause: error });
  }
}

function cancelled(cause: unknown): ToolCallError {
  return new ToolCallError("cancelled", "The call was cancelled", {}, { cause });
}

function unknownServer(serverName: string, names: readonly string[]): ToolCallError {
  const known = names.length === 0 ? "none yet" : names.join(", ");
  const shown = JSON.stringify(serverName.slice(0, 80));
  return new ToolCallError(
    "unknown_server",
    `No MCP server ${shown} is registered. Registered servers: ${known}`,
  );
}

/** Options of {@linkcode PooledServer}. */
interface PooledServerOptions {
  /** The server's registered name. */
  readonly serverName: string;
  /** How it is started or reached. */
  readonly params: ServerParams;
  /** How to connect. */
  readonly connect: Omit<SessionConnectOptions, "signal">;
  /** How long it keeps running without requests, in milliseconds. */
  readonly idleMs: number;
}

/** One server: its connection and its users. */
class PooledServer implements AsyncDisposable {
  /** How the server is started or reached. */
  readonly params: ServerParams;
  /** Stops the server after a time without use. */
  readonly idle: Deadline;

  readonly #options: PooledServerOptions;
  readonly #turns = new Semaphore(MAX_CONCURRENT_CALLS);
  readonly #ended = new AbortController();
  readonly #watched = new Set<Promise<void>>();
  #current: Promise<McpConnection> | undefined;
  #connected: McpConnection | undefined;

  constructor(options: PooledServerOptions) {
    this.#options = options;
    this.params = options.params;
    this.idle = new Deadline(options.idleMs, {
      keepsAlive: false,
      onPassed: () => this.#stopIdle(),
    });
  }

  /** Waits for a turn, and keeps the server from being stopped as idle until the turn ends. */
  async turn(signal: AbortSignal): Promise<Disposable> {
    signal.throwIfAborted();
    using parts = new DisposableStack();
    parts.use(this.idle.use());
    const turn = this.#turns.tryAcquire() ??
      await this.#turns.acquire(anySignal(signal, this.#ended.signal));
    parts.use(turn);
    return parts.move();
  }

  /** The connection, if any. */
  get connected(): McpConnection | undefined {
    return this.#connected;
  }

  /** Whether it is connected, or connecting. */
  get runs(): boolean {
    return this.#current !== undefined;
  }

  /** Returns the connection, or connects. */
  connection(start: ApprovedStart): Promise<McpConnection> {
    return this.#current ?? this.#follow(this.#start(start));
  }

  #follow(current: Promise<McpConnection>): Promise<McpConnection> {
    this.#current = current;
    const watched: Promise<void> = current.then(
      (connection) => this.#watch(connection, current),
      (error: unknown) => this.#fail(current, error),
    ).finally(() => void this.#watched.delete(watched));
    this.#watched.add(watched);
    return current;
  }

  /** Uses a connection, unless one exists. */
  adopt(connection: McpConnection): boolean {
    if (this.#current !== undefined) return false;
    this.#follow(Promise.resolve(connection));
    this.#connected = connection;
    this.idle.restart();
    return true;
  }

  /** Stops the server for good. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.idle[Symbol.dispose]();
    const current = this.#current;
    this.#ended.abort(new DOMException("The MCP server is stopped", "AbortError"));
    const connection = await current?.catch(() => undefined); // it was never made
    await connection?.[Symbol.asyncDispose]();
    await Promise.all(this.#watched); // connections that ended before are still being cleaned up
  }

  async #start({ settings }: ApprovedStart): Promise<McpConnection> {
    const { serverName, params, connect } = this.#options;
    const { connectMcp } = await import("../mcp/connect.ts"); // large, and many sessions need none
    return await connectMcp(serverName, params, {
      ...connect,
      settings,
      signal: this.#ended.signal,
    });
  }

  #stopIdle(): void {
    const { serverName, connect } = this.#options;
    const current = this.#current;
    this.#forget(); // the next call starts it again
    if (current === undefined) return;
    connect.log?.debug(`MCP server "${serverName}" was stopped because it was idle`);
    const failed = (error: unknown) =>
      connect.log?.error(`Cannot stop MCP server "${serverName}": ${error}`);
    current.then((connection) => connection[Symbol.asyncDispose]()).catch(failed);
  }

  #forget(): void {
    this.#current = undefined;
    this.#connected = undefined;
  }

  async #watch(connection: McpConnection, current: Promise<McpConnection>): Promise<void> {
    if (this.#current === current) this.#connected = connection;
    await connection.closed;
    if (this.#current === current) this.#forget();
    await connection[Symbol.asyncDispose]();
  }

  #fail(current: Promise<McpConnection>, error: unknown): void {
    // Logged once here: many calls may wait for the same start.
    if (!this.#ended.signal.aborted && error instanceof Error) {
      this.#options.connect.log?.warn(error.message);
    }
    if (this.#current === current) this.#forget();
  }
}
