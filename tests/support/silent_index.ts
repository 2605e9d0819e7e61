/** A package index that takes requests and never answers: it holds an installer in the middle. */
export class SilentIndex implements AsyncDisposable {
  /** Resolves once an installer has asked for something. */
  readonly asked: Promise<void>;
  /** Resolves once that installer has hung up, because it ended. */
  readonly hungUp: Promise<void>;
  /** Its address. */
  readonly url: string;
  #server: Deno.HttpServer<Deno.NetAddr>;
  #answer = Promise.withResolvers<Response>();

  constructor() {
    const asked = Promise.withResolvers<void>();
    const hungUp = Promise.withResolvers<void>();
    this.asked = asked.promise;
    this.hungUp = hungUp.promise;
    this.#server = Deno.serve(
      { hostname: "127.0.0.1", port: 0, onListen() {} },
      (request) => {
        asked.resolve();
        request.signal.addEventListener("abort", () => hungUp.resolve());
        return this.#answer.promise;
      },
    );
    this.url = `http://127.0.0.1:${this.#server.addr.port}/simple`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#answer.resolve(new Response(null, { status: 404 }));
    await this.#server.shutdown();
  }
}
