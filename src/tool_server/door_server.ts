import { settledWithin } from "../async/signals.ts";
import { acceptAll } from "../net/accept_all.ts";
import type { ByteStream } from "../net/byte_stream.ts";
import { TcpStream } from "../net/tcp_stream.ts";
import { type DoorAnswer, Refused } from "./door.ts";
import { DoorBudget } from "./door_budget.ts";
import { DoorConnection } from "./door_connection.ts";
import type { IncomingRequest } from "./exchange.ts";

/** What a {@linkcode DoorServer} is made of. */
export interface DoorServerOptions {
  /** Answers requests; never rejects. */
  readonly handler: (request: IncomingRequest) => Promise<DoorAnswer>;
  /** Writes the body of a refusal. */
  readonly refusal: (refused: Refused) => DoorAnswer;
  /** The largest body, in bytes. */
  readonly maxBodyBytes: number;
  /**
   * How many connections there may be.
   *
   * @default {192}
   */
  readonly maxConnections?: number | undefined;
  /**
   * How long a head may take, in milliseconds.
   *
   * @default {10000}
   */
  readonly headTimeoutMs?: number | undefined;
}

const MAX_CONNECTIONS = 192;
/** How many more are told that there are too many. */
const REFUSED_CONNECTIONS = 32;
const HEAD_TIMEOUT_MS = 10_000;
/** How long a connection is kept between two requests. */
const IDLE_TIMEOUT_MS = 10 * 60_000;
/** How long requests that are being answered are waited for at the end. */
const FAREWELL_MS = 2000;

/**
 * Answers requests on connections, wherever these come from. It speaks as much of HTTP/1.1 as our own
 * client needs, and hangs up on everything else. Disposing it ends all connections.
 *
 * Its requests are answered in half the time that `Deno.serve()` takes, and need no port.
 */
export class DoorServer implements AsyncDisposable {
  readonly #options: DoorServerOptions;
  readonly #budget = new DoorBudget();
  readonly #connections = new Map<DoorConnection, Promise<void>>();
  #listener: Deno.TcpListener | undefined;
  #accepting: Promise<void> | undefined;
  #closed = false;

  /** @param options Who answers, and limits. */
  constructor(options: DoorServerOptions) {
    this.#options = options;
  }

  /** Listens on a free port of 127.0.0.1. */
  listen(): number {
    const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    this.#listener = listener;
    this.#accepting = acceptAll(
      listener,
      (connection) => void this.serve(new TcpStream(connection)),
    );
    return listener.addr.port;
  }

  /** Answers the requests that come on a connection. */
  async serve(stream: ByteStream): Promise<void> {
    const { maxConnections = MAX_CONNECTIONS, headTimeoutMs = HEAD_TIMEOUT_MS } = this.#options;
    const count = this.#connections.size;
    if (this.#closed || count >= maxConnections + REFUSED_CONNECTIONS) return stream.close();
    const isFull = count >= maxConnections && !this.#endKept();
    const connection = new DoorConnection(stream, {
      ...this.#options,
      budget: this.#budget,
      headTimeoutMs,
      idleTimeoutMs: IDLE_TIMEOUT_MS,
    });
    const served = isFull
      ? connection.refuse(new Refused(503, `There are ${maxConnections} connections already`))
      : connection.serve();
    this.#connections.set(connection, served);
    await served;
    this.#connections.delete(connection);
  }

  /** Ends all connections that there are; the requests on them are cancelled. */
  hangUp(): void {
    for (const connection of this.#connections.keys()) connection.close();
  }

  /** Lets requests be answered for a moment, then ends all connections. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    this.#listener?.close();
    await this.#accepting;
    const ended = [...this.#connections].map(async ([connection, served]) => {
      connection.end();
      if (!await settledWithin(served, FAREWELL_MS)) connection.close();
      await served;
    });
    await Promise.all(ended);
  }

  /** Ends a connection that is only kept; whoever kept it opens another. */
  #endKept(): boolean {
    for (const connection of this.#connections.keys()) {
      if (!connection.isKept) continue;
      connection.close();
      return true;
    }
    return false;
  }
}
