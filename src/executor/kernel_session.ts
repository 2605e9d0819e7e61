import { KernelClient, type KernelClientOptions } from "../kernel/client.ts";
import { KernelGateway, type KernelGatewayOptions } from "../kernel/gateway.ts";
import type { ExecuteOptions, Execution } from "../kernel/execution.ts";

/** How a {@linkcode KernelSession} starts its gateways and their kernels. */
export interface KernelSessionOptions {
  readonly gateway: KernelGatewayOptions;
  readonly kernel: Omit<KernelClientOptions, "gateway" | "endGateway">;
}

/** A running gateway and its client. */
interface Parts extends AsyncDisposable {
  readonly client: KernelClient;
  /** Whether the gateway has ended, and whether an execution has been told so. */
  readonly life: { ended: boolean; told: boolean };
}

/**
 * A kernel and the gateway that it runs under.
 *
 * A kernel that dies is replaced by its client. When the gateway or its sandbox dies, the execution
 * under way, or else the next one, is told; the one after that starts a fresh gateway.
 */
export class KernelSession implements AsyncDisposable {
  readonly #options: KernelSessionOptions;
  readonly #closed = new AbortController();
  #parts: Promise<Parts>;

  private constructor(options: KernelSessionOptions) {
    this.#options = options;
    this.#parts = startParts(options);
  }

  /** Starts a gateway and a kernel. */
  static async start(options: KernelSessionOptions): Promise<KernelSession> {
    const session = new KernelSession(options);
    await session.#parts;
    return session;
  }

  /** Sees to it that there is a gateway. */
  async ready(): Promise<(code: string, options: ExecuteOptions) => Execution> {
    const { client, life } = await this.#usable(({ life }) => life.ended && life.told);
    return (code, options) => {
      const execution = client.execute(code, options);
      execution.state.then((state) => {
        if (state === "lost" && life.ended) life.told = true;
      });
      return execution;
    };
  }

  /** Sees to it that there is a gateway, without an execution that could be told of its end. */
  async client(): Promise<KernelClient> {
    return (await this.#usable(({ life }) => life.ended && life.told)).client;
  }

  /** Replaces the kernel by a fresh one, and the gateway too where it has ended. */
  async reset(): Promise<void> {
    const before = await this.#parts.catch(() => undefined); // #usable() starts another
    const parts = await this.#usable(({ life }) => life.ended);
    if (parts !== before) return;
    try {
      await parts.client.reset();
    } catch (error) {
      if (!parts.life.ended) throw error;
      await this.#usable(({ life }) => life.ended);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed.abort(new DOMException("The session was closed", "AbortError"));
    const parts = await this.#parts.catch(() => undefined); // there is nothing to end
    await parts?.[Symbol.asyncDispose]();
  }

  /** The gateway in use, or a fresh one instead of one that could not be started or is over. */
  async #usable(isOver: (parts: Parts) => boolean): Promise<Parts> {
    const before = this.#parts;
    const parts = await before.catch(() => undefined); // the next failure says more than an old one
    if (parts !== undefined && !isOver(parts)) return parts;
    if (this.#parts === before) this.#parts = this.#startAgain(parts);
    return await this.#parts;
  }

  async #startAgain(old: Parts | undefined): Promise<Parts> {
    await old?.[Symbol.asyncDispose]();
    const { signal } = this.#closed;
    signal.throwIfAborted();
    const { gateway, kernel } = this.#options;
    return await startParts({ gateway: { ...gateway, signal }, kernel: { ...kernel, signal } });
  }
}

async function startParts(options: KernelSessionOptions): Promise<Parts> {
  await using stack = new AsyncDisposableStack();
  const gateway = stack.use(await KernelGateway.start(options.gateway));
  const life = { ended: false, told: false };
  // Before the client hears of it and tells an execution.
  gateway.exited.then(() => life.ended = true);
  const endGateway = async () => {
    await gateway[Symbol.asyncDispose]();
    await gateway.exited; // and so life says
  };
  const client = stack.use(await KernelClient.start({ ...options.kernel, gateway, endGateway }));
  const owned = stack.move();
  return { client, life, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
