import { Alarm } from "../base/alarm.ts";
import { McpConnectionError, McpLoginRequiredError, ToolCallError } from "../base/errors.ts";
import { type Logger, silentLogger } from "../base/log.ts";
import { Semaphore } from "../base/mutex.ts";
import { abortable, anySignal, LinkedSignal, pause } from "../base/signals.ts";
import type { ExactObject } from "../json/exact.ts";
import { explainLogin, startFailure } from "../mcp/call_errors.ts";
import type { CatalogMethod } from "../mcp/catalog.ts";
import { connectMcp, type ConnectOptions, type SessionConnectOptions } from "../mcp/connect.ts";
import type { McpConnection, ServerDescription } from "../mcp/connection.ts";
import type { CallToolOptions, ServerHooks } from "../mcp/hooks.ts";
import type { ServerParams } from "../mcp/params.ts";
import type { ToolResult } from "../mcp/results.ts";
import type { Tool } from "../mcp/tools.ts";
import type { ServerRegistry } from "./registry.ts";

/** How MCP servers are used, beside how they are reached. */
export interface ServerPoolOptions extends ConnectOptions {
  /**
   * How many concurrent requests one MCP server receives; the others wait.
   *
   * @default {64}
   */
  maxConcurrentCalls?: number;
  /**
   * How long an MCP server is kept running without a request, in milliseconds. What it keeps in its
   * memory is lost then; the next request starts it again.
   *
   * @default {3600000}
   */
  serverIdleMs?: number;
}

/** Options of {@linkcode McpPool}. */
interface McpPoolOptions extends ServerPoolOptions, Pick<SessionConnectOptions, "settingsFiles"> {
  /** The servers. */
  readonly registry: ServerRegistry;
  /** What a server may tell and ask. */
  readonly hooks?: (serverName: string) => ServerHooks;
  /** Says whether a server may be started, by throwing where it may not. */
  readonly admit: (serverName: string, params: ServerParams, signal: AbortSignal) => Promise<void>;
}

/** What is done with a connection. */
type Use<T> = (connection: McpConnection, signal: AbortSignal) => Promise<T>;

/** How many concurrent requests a server receives. */
const MAX_CONCURRENT_CALLS = 64;
/** How long a list must stay as it is: servers that add several tools report each. */
const SETTLE_MS = 100;
/** How long a server is kept without a request. */
const IDLE_MS = 60 * 60_000;

/**
 * The connections to MCP servers: started by the first call, one for each server, each for itself.
 *
 * A server that died is started again by the next call, later each time as long as it keeps dying.
 */
export class McpPool implements AsyncDisposable {
  readonly #options: McpPoolOptions;
  readonly #registry: ServerRegistry;
  readonly #log: Logger;
  readonly #slots = new Map<string, ServerSlot>();
  readonly #ending = new Set<Promise<void>>();
  #lifetime = new AbortController();

  /** @param options The servers and how they are connected to. Nothing is started yet. */
  constructor(options: McpPoolOptions) {
    const { registry, log = silentLogger } = options;
    this.#options = options;
    this.#registry = registry;
    this.#log = log;
  }

  /** Lists a server's tools as they are now. */
  async listTools(serverName: string, signal?: AbortSignal): Promise<readonly unknown[]> {
    return await this.#use(
      serverName,
      signal,
      (connection, signal) => connection.listEntries({ signal }),
    );
  }

  /** Asks a server for all that an API is made of, once it reports no more changes of its tools. */
  async describe(serverName: string, signal?: AbortSignal): Promise<ServerDescription> {
    return await this.#use(
      serverName,
      signal,
      (connection, signal) => connection.describe({ settleMs: SETTLE_MS, signal }),
    );
  }

  /** Finds a file that a result names and that lies where only its server can reach it. */
  async ownFileIn(serverName: string, result: ToolResult): Promise<string | undefined> {
    return await this.#slots.get(serverName)?.connected?.ownFileIn(result);
  }

  /** The names of the tools that a server lists, as far as that is known. */
  knownNames(serverName: string): readonly string[] {
    return this.#slots.get(serverName)?.connected?.knownNames ?? [];
  }

  /** Finds a tool in a server's list. */
  async findTool(
    serverName: string,
    toolName: string,
    signal?: AbortSignal,
  ): Promise<Tool | undefined> {
    const slot = this.#slot(serverName);
    const known = slot.connected?.knownTool(toolName); // without a turn, which asking takes
    if (known === undefined) {
      return await this.#use(serverName, signal, (connection, signal) => {
        return connection.findTool(toolName, signal);
      });
    }
    slot.stay(); // a caller that looks a tool up is about to call it, once approved
    return known;
  }

  /** Calls a tool, at most once: it was approved once. Nothing here asks for approval. */
  async callTool(
    serverName: string,
    toolName: string,
    args: ExactObject,
    options: CallToolOptions = {},
  ): Promise<ToolResult> {
    return await this.#once(serverName, options.signal, async (connection, signal) => {
      return await connection.callTool(toolName, args, { ...options, signal });
    });
  }

  /** Asks a server for what it offers beside tools. Nothing here asks for approval. */
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

  /** Cancels the calls in flight and stops all servers. The next call starts its server again. */
  async reset(): Promise<void> {
    const lifetime = this.#lifetime;
    this.#lifetime = new AbortController();
    lifetime.abort(new DOMException("The tool server was reset", "AbortError"));
    for (const serverName of [...this.#slots.keys()]) this.#end(serverName);
    await Promise.all(this.#ending);
  }

  /** Stops one server, as after it was removed from the registry. */
  async drop(serverName: string): Promise<void> {
    this.#end(serverName);
    await Promise.all(this.#ending);
  }

  /** Stops all servers. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.reset();
  }

  /** Asks something that changes nothing: again where the server no longer knew the session. */
  async #use<T>(serverName: string, signal: AbortSignal | undefined, use: Use<T>): Promise<T> {
    return await this.#once(serverName, signal, async (connection, signal, slot) => {
      try {
        return await use(connection, signal);
      } catch (error) {
        if (!connection.forgotten) throw error;
        return await use(await this.#connection(serverName, slot, signal), signal);
      }
    });
  }

  async #once<T>(
    serverName: string,
    ownSignal: AbortSignal | undefined,
    use: (connection: McpConnection, signal: AbortSignal, slot: ServerSlot) => Promise<T>,
  ): Promise<T> {
    using linked = new LinkedSignal(ownSignal, this.#lifetime.signal);
    const { signal } = linked;
    const slot = this.#slot(serverName);
    using _turn = await slot.turn(signal).catch((error) => {
      throw cancelled(error);
    });
    const connection = slot.connected ?? await this.#connection(serverName, slot, signal);
    return await use(connection, signal, slot);
  }

  async #connection(
    serverName: string,
    slot: ServerSlot,
    signal: AbortSignal,
  ): Promise<McpConnection> {
    await this.#options.admit(serverName, slot.params, signal).catch((error) => {
      throw signal.aborted ? cancelled(error) : error;
    });
    try {
      return await abortable(slot.connection(), signal);
    } catch (error) {
      if (signal.aborted) throw cancelled(error);
      throw this.#unreachable(serverName, slot.params, error);
    }
  }

  /** Makes sure that there is such a server, before anybody is asked about it. */
  requireRegistered(serverName: string): ServerParams {
    const params = this.#registry.get(serverName);
    if (params === undefined) throw unknownServer(serverName, this.#registry.names);
    return params;
  }

  #slot(serverName: string): ServerSlot {
    const params = this.requireRegistered(serverName);
    const present = this.#slots.get(serverName);
    if (present?.params === params || present?.wanted === JSON.stringify(params)) return present;
    if (present !== undefined) {
      this.#log.info(`MCP server "${serverName}" was registered again; restarting it`);
      this.#end(serverName);
    }
    const { hooks, ...connect } = this.#options;
    const slot = new ServerSlot({
      serverName,
      params,
      connect: { ...connect, log: this.#log, hooks: hooks?.(serverName), owner: this },
      maxConcurrentCalls: connect.maxConcurrentCalls ?? MAX_CONCURRENT_CALLS,
      idleMs: connect.serverIdleMs ?? IDLE_MS,
    });
    this.#slots.set(serverName, slot);
    return slot;
  }

  /** Stops a server without waiting for it, so that a new one can take its place immediately. */
  #end(serverName: string): void {
    const slot = this.#slots.get(serverName);
    if (slot === undefined) return;
    this.#slots.delete(serverName);
    const ending: Promise<void> = slot[Symbol.asyncDispose]()
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
  const known = names.length === 0 ? "there are none yet" : `there are ${names.join(", ")}`;
  const shown = JSON.stringify(serverName.slice(0, 80));
  return new ToolCallError("unknown_server", `No MCP server ${shown} is registered: ${known}`);
}

/** What a {@linkcode ServerSlot} is made of. */
interface ServerSlotOptions {
  /** The server's registered name. */
  readonly serverName: string;
  /** How it is started or reached. */
  readonly params: ServerParams;
  /** How it is connected to. */
  readonly connect: Omit<SessionConnectOptions, "signal">;
  /** How many concurrent requests it receives; the others wait. */
  readonly maxConcurrentCalls: number;
  /** How long it is kept without a request, in milliseconds. */
  readonly idleMs: number;
}

/** A connection that lived this long was a working one: the next is made immediately. */
const STABLE_MS = 10_000;
const FIRST_DELAY_MS = 200;
const LONGEST_DELAY_MS = 10_000;

/** The place of one server: its connection, how often it failed, and who uses it. */
class ServerSlot implements AsyncDisposable {
  /** How the server is started or reached. */
  readonly params: ServerParams;
  /** The same as text, to tell whether they changed. */
  readonly wanted: string;

  readonly #options: ServerSlotOptions;
  readonly #turns: Semaphore;
  readonly #ended = new AbortController();
  readonly #watched = new Set<Promise<void>>();
  #current: Promise<McpConnection> | undefined;
  #connected: McpConnection | undefined;
  #failures = 0;
  #notBefore = 0;
  #users = 0;
  readonly #idle = new Alarm(() => this.#stopIdle());

  /** @param options The server. Nothing is started yet. */
  constructor(options: ServerSlotOptions) {
    this.#options = options;
    this.params = options.params;
    this.wanted = JSON.stringify(options.params);
    this.#turns = new Semaphore(options.maxConcurrentCalls);
  }

  /** Waits for a turn, and keeps the server from being stopped as idle in the meantime. */
  async turn(signal: AbortSignal): Promise<Disposable> {
    signal.throwIfAborted();
    this.#users++;
    this.#idle.unset();
    const leave = () => {
      this.#users--;
      this.stay();
    };
    try {
      const turn = this.#turns.tryAcquire() ??
        await this.#turns.acquire(anySignal(signal, this.#ended.signal));
      return {
        [Symbol.dispose]: () => {
          turn[Symbol.dispose]();
          leave();
        },
      };
    } catch (error) {
      leave();
      throw error;
    }
  }

  /** Counts the time in which nobody uses the server from now on. */
  stay(): void {
    if (this.#users === 0 && !this.#ended.signal.aborted) this.#idle.set(this.#options.idleMs);
  }

  /** The connection, where there is one already. */
  get connected(): McpConnection | undefined {
    return this.#connected;
  }

  /** Gives the connection, which is made where there is none. */
  connection(): Promise<McpConnection> {
    if (this.#current !== undefined) return this.#current;
    const current = this.#start();
    this.#current = current;
    const watched: Promise<void> = current.then(
      (connection) => this.#watch(connection, current),
      (error: unknown) => this.#fail(current, error),
    ).finally(() => void this.#watched.delete(watched));
    this.#watched.add(watched);
    return current;
  }

  /** Stops the server for good. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#idle[Symbol.dispose]();
    const current = this.#current;
    this.#ended.abort(new DOMException("The MCP server is stopped", "AbortError"));
    const connection = await current?.catch(() => undefined); // it was never there
    await connection?.[Symbol.asyncDispose]();
    await Promise.all(this.#watched); // those that died before are still cleared away
  }

  async #start(): Promise<McpConnection> {
    const { serverName, params, connect } = this.#options;
    await pause(this.#notBefore - performance.now(), this.#ended.signal);
    return await connectMcp(serverName, params, { ...connect, signal: this.#ended.signal });
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
    const since = performance.now();
    if (this.#current === current) this.#connected = connection;
    await connection.closed;
    if (performance.now() - since > STABLE_MS) this.#failures = 0;
    else if (this.#current === current) this.#delayNext();
    if (this.#current === current) this.#forget();
    await connection[Symbol.asyncDispose]();
  }

  #fail(current: Promise<McpConnection>, error: unknown): void {
    // Here, as many calls may wait for the same start.
    if (!this.#ended.signal.aborted && error instanceof Error) {
      this.#options.connect.log?.warn(error.message);
    }
    this.#delayNext();
    if (this.#current === current) this.#forget();
  }

  #delayNext(): void {
    const delay = Math.min(FIRST_DELAY_MS * 2 ** this.#failures, LONGEST_DELAY_MS);
    this.#failures++;
    this.#notBefore = performance.now() + delay;
  }
}
