/** A package index that takes requests and never answers: it holds an installer in the middle. */
export class SilentIndex implements AsyncDisposable {
  /** Resolves once an installer has asked for something. */
  readonly asked: Promise<void>;
  /** Resolves once that installer has hung up, because it ended. */
  readonly hungUp: Promise<void>;
  /** Its address. */
  readonly url: string;
  #listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  #asked = Promise.withResolvers<void>();
  #hungUp = Promise.withResolvers<void>();
  #connections = new Set<Deno.TcpConn>();
  #accepting: Promise<void>;

  constructor() {
    this.asked = this.#asked.promise;
    this.hungUp = this.#hungUp.promise;
    this.url = `http://127.0.0.1:${this.#listener.addr.port}/simple`;
    this.#accepting = this.#accept();
  }

  async #accept(): Promise<void> {
    const held: Promise<void>[] = [];
    for await (const connection of this.#listener) held.push(this.#hold(connection));
    await Promise.all(held);
  }

  async #hold(connection: Deno.TcpConn): Promise<void> {
    this.#connections.add(connection);
    try {
      for await (const _bytes of connection.readable) this.#asked.resolve();
    } catch {
      // Reset by the installer, or closed by us: over in either case.
    }
    this.#connections.delete(connection);
    this.#hungUp.resolve();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listener.close();
    for (const connection of this.#connections) connection.close();
    await this.#accepting;
  }
}
