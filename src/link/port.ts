import { acceptAll } from "../net/accept_all.ts";
import type { Link } from "./link.ts";

/** A loopback port of the host whose connections lead through a link. Disposing it closes it. */
export class LinkPort implements AsyncDisposable {
  readonly #listener: Deno.TcpListener;
  readonly #accepting: Promise<void>;

  private constructor(link: Link) {
    this.#listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    this.#accepting = acceptAll(this.#listener, (connection) => link.connect(connection));
  }

  /** Listens on a free port of 127.0.0.1. */
  static open(link: Link): LinkPort {
    return new LinkPort(link);
  }

  /** The port's number. */
  get number(): number {
    return this.#listener.addr.port;
  }

  /** Closes the port. Connections that were made stay. */
  async [Symbol.asyncDispose](): Promise<void> {
    try {
      this.#listener.close();
    } catch {
      // A failure of its own has closed it already.
    }
    await this.#accepting;
  }
}
