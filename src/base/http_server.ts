import { limitedLogger, type Logger } from "./log.ts";
import { pause } from "./signals.ts";

/** Options of {@linkcode HttpServer}. */
interface HttpServerOptions {
  readonly hostname: string;
  /** 0 for any free port. */
  readonly port: number;
  readonly handler: Deno.ServeHandler;
  /** Receives failures. */
  readonly log: Logger;
}

/** The pause between attempts to listen: nothing announces that descriptors are free again. */
const RETRY_MS = 500;

/**
 * An HTTP server that starts again when `Deno.serve()` stops: it fails to accept a connection when the
 * process runs out of descriptors or the user out of epoll watches.
 *
 * Open connections stay open. Disposing the server closes them.
 */
export class HttpServer implements AsyncDisposable {
  /** The address that it listens on. */
  readonly addr: Deno.NetAddr;
  readonly #options: HttpServerOptions;
  readonly #cut = new AbortController();
  readonly #ended: Promise<void>;

  constructor(options: HttpServerOptions) {
    this.#options = options;
    const { addr, finished } = this.#listen(options.port);
    this.addr = addr;
    this.#ended = this.#last(finished);
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

  /** Serves again whenever `Deno.serve()` has stopped. */
  async #last(first: Promise<void>): Promise<void> {
    const { hostname, port } = this.addr;
    const { signal } = this.#cut;
    const log = limitedLogger(this.#options.log);
    for (let served = first;;) {
      const error = await served.then(() => "it stopped", (error: unknown) => error);
      if (signal.aborted) return;
      log.error(`Cannot accept connections on ${hostname}:${port}: ${error}`);
      if (await pause(RETRY_MS, signal).then(() => false, () => true)) return;
      served = Promise.try(() => this.#listen(port).finished);
    }
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
      await pause(ACCEPT_RETRY_MS);
    }
  }
}
