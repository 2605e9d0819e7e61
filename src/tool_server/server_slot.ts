import { Alarm } from "../async/alarm.ts";
import { pause } from "../async/pause.ts";
import { Semaphore } from "../async/semaphore.ts";
import { anySignal } from "../async/signals.ts";
import { connectMcp, type SessionConnectOptions } from "../mcp/connect.ts";
import type { McpConnection } from "../mcp/connection.ts";
import type { ServerParams } from "../mcp/server_params.ts";

/** What a {@linkcode ServerSlot} is made of. */
export interface ServerSlotOptions {
  /** The server's registered name. */
  readonly serverName: string;
  /** How it is started or reached. */
  readonly params: ServerParams;
  /** How it is connected to. */
  readonly connect: Omit<SessionConnectOptions, "signal">;
  /** How many requests it is sent at once; the others wait. */
  readonly maxConcurrentCalls: number;
  /** How long it is kept without a request, in milliseconds. */
  readonly idleMs: number;
}

/** A connection that lived this long was a working one: the next is made at once. */
const STABLE_MS = 10_000;
const FIRST_DELAY_MS = 200;
const LONGEST_DELAY_MS = 10_000;

/** The place of one server: its connection, how often it failed, and who uses it. */
export class ServerSlot implements AsyncDisposable {
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

  /** Waits for a turn, and keeps the server from being stopped as idle meanwhile. */
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
    connect.log?.debug(`MCP server "${serverName}" is stopped: nobody used it`);
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
