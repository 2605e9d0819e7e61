import type { Logger } from "./log.ts";
import { pause } from "./signals.ts";

/** What a {@linkcode LastingServer} is made of. */
interface LastingServerOptions {
  readonly hostname: string;
  /** 0 for any that is free. */
  readonly port: number;
  /** Answers requests. */
  readonly handler: Deno.ServeHandler<Deno.NetAddr>;
  /** Receives failures. */
  readonly log: Logger;
}

/** Between two attempts to listen. What was used up is given back by others, who do not say when. */
const RETRY_MS = 500;

/**
 * An HTTP server that continues where `Deno.serve()` gives up: where a connection cannot be accepted, as
 * the process has no descriptor left for it, or the user nothing to watch it by. Anybody who reaches
 * the port can bring that about, and so can code in a sandbox.
 *
 * Connections that there are stay. Disposing it ends all of them.
 */
export class LastingServer implements AsyncDisposable {
  readonly #options: LastingServerOptions;
  readonly #cut = new AbortController();
  readonly #ended: Promise<void>;
  #server: Deno.HttpServer<Deno.NetAddr>;

  /** Begins to listen. */
  constructor(options: LastingServerOptions) {
    this.#options = options;
    this.#server = this.#listen(options.port);
    this.#ended = this.#last();
  }

  /** Where it listens. */
  get addr(): Deno.NetAddr {
    return this.#server.addr;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // Not shutdown(), which waits for clients, and after which nothing can cut them off.
    this.#cut.abort();
    await this.#ended;
  }

  #listen(port: number): Deno.HttpServer<Deno.NetAddr> {
    const { hostname, handler } = this.#options;
    return Deno.serve({ hostname, port, signal: this.#cut.signal, onListen() {} }, handler);
  }

  async #last(): Promise<void> {
    const { log } = this.#options;
    const { hostname, port } = this.addr;
    for (;;) {
      const startedAt = performance.now();
      const error = await this.#server.finished.then(() => undefined, (error: unknown) => error);
      if (this.#cut.signal.aborted) return;
      log.error(`Cannot accept connections on ${hostname}:${port}: ${error}`);
      if (performance.now() - startedAt < RETRY_MS && await this.#isCutWithin(RETRY_MS)) return;
      if (!await this.#again(port)) return;
    }
  }

  /** Listens again; `false` where it is disposed of first. */
  async #again(port: number): Promise<boolean> {
    for (let failures = 0;; failures++) {
      try {
        this.#server = this.#listen(port);
        return true;
      } catch (error) {
        if (failures === 0) this.#options.log.error(`Cannot listen on port ${port}: ${error}`);
        if (await this.#isCutWithin(RETRY_MS)) return false;
      }
    }
  }

  async #isCutWithin(ms: number): Promise<boolean> {
    return await pause(ms, this.#cut.signal).then(() => false, () => true);
  }
}

/** How long to wait where no connection can be accepted: nobody says when one can be again. */
const ACCEPT_RETRY_MS = 100;

/**
 * Accepts connections until the listener is closed. Where the process has no descriptor left, or the
 * user nothing to watch one by, the next ones wait.
 */
export async function acceptAll(
  listener: Deno.TcpListener,
  take: (connection: Deno.TcpConn) => void,
): Promise<void> {
  for (;;) {
    try {
      take(await listener.accept());
    } catch (error) {
      if (error instanceof Deno.errors.BadResource) return; // closed
      if (error instanceof Deno.errors.ConnectionAborted) continue; // the client disconnected first
      await new Promise((resolve) => setTimeout(resolve, ACCEPT_RETRY_MS));
    }
  }
}
