import type { Logger } from "./log.ts";
import { pause } from "./signals.ts";

/** Options of {@linkcode LastingServer}. */
interface LastingServerOptions {
  readonly hostname: string;
  /** 0 for any free port. */
  readonly port: number;
  readonly handler: Deno.ServeHandler<Deno.NetAddr>;
  /** Receives failures. */
  readonly log: Logger;
}

/** The pause between attempts to listen: nothing announces that descriptors are free again. */
const RETRY_MS = 500;

/**
 * An HTTP server that survives what makes `Deno.serve()` stop: a failure to accept a connection, as
 * when the process runs out of descriptors or the user out of epoll watches. Anyone who reaches the
 * port can cause that, including code in a sandbox.
 *
 * Open connections stay open. Disposing the server closes them.
 */
export class LastingServer implements AsyncDisposable {
  readonly #options: LastingServerOptions;
  readonly #cut = new AbortController();
  readonly #ended: Promise<void>;
  #server: Deno.HttpServer<Deno.NetAddr>;

  constructor(options: LastingServerOptions) {
    this.#options = options;
    this.#server = this.#listen(options.port);
    this.#ended = this.#last();
  }

  /** The address that it listens on. */
  get addr(): Deno.NetAddr {
    return this.#server.addr;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // Not shutdown(): it waits for clients, and nothing can disconnect them afterwards.
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

  /** Listens again; `false` if the server is disposed first. */
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

/** How long to wait after a failed accept: nothing announces that descriptors are free again. */
const ACCEPT_RETRY_MS = 100;

/** Accepts connections until the listener is closed, also after descriptors were exhausted. */
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
