import { abortable, anySignal } from "../async/signals.ts";
import { McpConnectionError, ToolCallError } from "../errors.ts";
import type { ExactObject } from "../json/exact.ts";
import { type Logger, silentLogger } from "../log.ts";
import { connectMcp, type ConnectOptions } from "../mcp/connect.ts";
import type { CallToolOptions } from "../mcp/call_options.ts";
import type { CatalogMethod } from "../mcp/catalog.ts";
import type { McpConnection } from "../mcp/connection.ts";
import type { ToolResult } from "../mcp/content.ts";
import type { ServerHooks } from "../mcp/server_hooks.ts";
import type { ServerParams } from "../mcp/server_params.ts";
import type { ServerRegistry } from "./server_registry.ts";

/** Options of {@linkcode McpPool}. */
export interface McpPoolOptions {
  /** The servers. */
  readonly registry: ServerRegistry;
  /** How they are connected to. */
  readonly connect?: Omit<ConnectOptions, "signal" | "hooks">;
  /** What a server may tell and ask. */
  readonly hooks?: (serverName: string) => ServerHooks;
  /** Told of servers that die. */
  readonly log?: Logger;
}

/** A connection that lived this long was a working one: the next is made at once. */
const STABLE_MS = 10_000;
const FIRST_DELAY_MS = 200;
const LONGEST_DELAY_MS = 10_000;

/**
 * The connections to MCP servers: started by the first call, one for each server, each for itself.
 *
 * A server that died is started again by the next call, later each time as long as it keeps dying.
 */
export class McpPool implements AsyncDisposable {
  readonly #registry: ServerRegistry;
  readonly #connect: Omit<ConnectOptions, "signal">;
  readonly #hooks: (serverName: string) => ServerHooks;
  readonly #log: Logger;
  readonly #slots = new Map<string, Slot>();
  readonly #ending = new Set<Promise<void>>();
  #lifetime = new AbortController();

  /** @param options The servers and how they are connected to. Nothing is started yet. */
  constructor(options: McpPoolOptions) {
    const { registry, log = silentLogger, connect = {}, hooks = () => ({}) } = options;
    this.#registry = registry;
    this.#log = log;
    this.#connect = { ...connect, log };
    this.#hooks = hooks;
  }

  /**
   * Gives the connection to a server, which is made where there is none.
   *
   * @param serverName The server.
   * @param signal Ends the wait, but not what others wait for too.
   * @returns The connection, for a call or two: it is not the caller's to dispose.
   * @throws {ToolCallError} The server is not registered, or cannot be started or reached.
   */
  async connection(serverName: string, signal?: AbortSignal): Promise<McpConnection> {
    const params = this.#registry.get(serverName);
    if (params === undefined) throw unknownServer(serverName, this.#registry.names);
    const lifetime = this.#lifetime.signal;
    try {
      return await abortable(
        this.#slot(serverName, params).connection(),
        anySignal(signal, lifetime),
      );
    } catch (error) {
      if (signal?.aborted || lifetime.aborted) throw cancelled(error);
      throw this.#unreachable(serverName, params, error);
    }
  }

  /**
   * Calls a tool. Nothing here asks for approval.
   *
   * @param serverName The server.
   * @param toolName The tool's name on the wire.
   * @param args The arguments, sent as they are.
   * @param options What cancels the call.
   * @returns The tool's result.
   * @throws {ToolCallError} There is no result; its type says why.
   */
  async callTool(
    serverName: string,
    toolName: string,
    args: ExactObject,
    options: CallToolOptions = {},
  ): Promise<ToolResult> {
    return await this.#use(serverName, options.signal, async (connection, signal) => {
      return await connection.callTool(toolName, args, { ...options, signal });
    });
  }

  /**
   * Asks a server for what it offers beside tools. Nothing here asks for approval.
   *
   * @param serverName The server.
   * @param method What is asked.
   * @param params The parameters, already checked.
   * @param options What cancels it.
   * @returns The result; a list comes whole, as `items`.
   * @throws {ToolCallError} There is no result; its type says why.
   */
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

  /**
   * Stops one server, as after it was removed from the registry.
   *
   * @param serverName The server.
   */
  async drop(serverName: string): Promise<void> {
    this.#end(serverName);
    await Promise.all(this.#ending);
  }

  /** Stops all servers. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.reset();
  }

  /** Uses a connection, once more where the server did nothing but forget the session. */
  async #use<T>(
    serverName: string,
    ownSignal: AbortSignal | undefined,
    use: (connection: McpConnection, signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const signal = anySignal(ownSignal, this.#lifetime.signal);
    const connection = await this.connection(serverName, signal);
    try {
      return await use(connection, signal);
    } catch (error) {
      if (!connection.forgotten) throw error;
      return await use(await this.connection(serverName, signal), signal);
    }
  }

  #slot(serverName: string, params: ServerParams): Slot {
    const wanted = JSON.stringify(params);
    const present = this.#slots.get(serverName);
    if (present?.wanted === wanted) return present;
    if (present !== undefined) {
      this.#log.info(`MCP server "${serverName}" was registered anew and is restarted`);
      this.#end(serverName);
    }
    const slot = new Slot(serverName, params, wanted, {
      ...this.#connect,
      hooks: this.#hooks(serverName),
    });
    this.#slots.set(serverName, slot);
    return slot;
  }

  /** Stops a server without waiting for it, so that a new one can take its place at once. */
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
    this.#log.warn(error.message);
    const options = { cause: error };
    if (!(error instanceof McpConnectionError)) {
      return new ToolCallError("server_unreachable", error.message, {}, options);
    }
    // Addresses and last words may hold secrets, and this goes to the code in the sandbox.
    const { exitCode, signal } = error;
    const message = "command" in params
      ? error.message.split("\n", 1)[0] ?? ""
      : `MCP server "${serverName}" cannot be reached`;
    return new ToolCallError("server_unreachable", message, { exitCode, signal }, options);
  }
}

/** The place of one server: its connection, how often it failed, and what it was made of. */
class Slot implements AsyncDisposable {
  readonly wanted: string;

  readonly #serverName: string;
  readonly #params: ServerParams;
  readonly #options: Omit<ConnectOptions, "signal">;
  readonly #ended = new AbortController();
  #current: Promise<McpConnection> | undefined;
  #failures = 0;
  #notBefore = 0;

  constructor(
    serverName: string,
    params: ServerParams,
    wanted: string,
    options: Omit<ConnectOptions, "signal">,
  ) {
    this.#serverName = serverName;
    this.#params = params;
    this.wanted = wanted;
    this.#options = options;
  }

  connection(): Promise<McpConnection> {
    if (this.#current !== undefined) return this.#current;
    const current = this.#start();
    this.#current = current;
    current.then((connection) => this.#watch(connection, current), () => this.#fail(current));
    return current;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const current = this.#current;
    this.#ended.abort(new DOMException("The MCP server is stopped", "AbortError"));
    const connection = await current?.catch(() => undefined); // it was never there
    await connection?.[Symbol.asyncDispose]();
  }

  async #start(): Promise<McpConnection> {
    await pause(this.#notBefore - performance.now(), this.#ended.signal);
    const options = { ...this.#options, signal: this.#ended.signal };
    return await connectMcp(this.#serverName, this.#params, options);
  }

  async #watch(connection: McpConnection, current: Promise<McpConnection>): Promise<void> {
    const since = performance.now();
    await connection.closed;
    if (performance.now() - since > STABLE_MS) this.#failures = 0;
    else this.#delayNext();
    if (this.#current === current) this.#current = undefined;
    await connection[Symbol.asyncDispose]();
  }

  #fail(current: Promise<McpConnection>): void {
    this.#delayNext();
    if (this.#current === current) this.#current = undefined;
  }

  #delayNext(): void {
    const delay = Math.min(FIRST_DELAY_MS * 2 ** this.#failures, LONGEST_DELAY_MS);
    this.#failures++;
    this.#notBefore = performance.now() + delay;
  }
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (ms <= 0) return signal.throwIfAborted();
  const over = Promise.withResolvers<void>();
  const timer = setTimeout(over.resolve, ms);
  try {
    await abortable(over.promise, signal);
  } finally {
    clearTimeout(timer);
  }
}

function cancelled(cause: unknown): ToolCallError {
  return new ToolCallError("cancelled", "The call was cancelled", {}, { cause });
}

function unknownServer(serverName: string, names: readonly string[]): ToolCallError {
  const known = names.length === 0 ? "none is" : `there are ${names.join(", ")}`;
  const shown = JSON.stringify(serverName.slice(0, 80));
  return new ToolCallError("unknown_server", `No MCP server ${shown} is registered: ${known}`);
}
