import type { ExecuteOptions, Execution } from "./execution.ts";
import { type KernelClientOptions, KernelHost } from "./host.ts";
import type { CodeCompletions, CodeStatus, TypedCodeOptions } from "./typed_code.ts";

/**
 * A running IPython kernel and its client. Disposing it ends the kernel.
 *
 * Executions run one after the other in the order in which they were requested. A kernel that dies
 * or cannot be interrupted is replaced with a fresh one that has the same set-up.
 *
 * @example
 * ```ts
 * import { KernelClient, type KernelGateway } from "@ipybox/ipybox/kernel";
 *
 * async function add(gateway: KernelGateway): Promise<string | null> {
 *   await using client = await KernelClient.start({ gateway });
 *   return (await client.execute("40 + 2").result).text; // 42
 * }
 * ```
 */
export class KernelClient implements AsyncDisposable {
  readonly #host: KernelHost;

  private constructor(host: KernelHost) {
    this.#host = host;
  }

  /**
   * Starts a kernel.
   *
   * @param options The gateway to start it at, and further settings.
   * @returns The client, ready for code.
   * @throws {KernelStartError} The gateway cannot be reached, or the kernel cannot be set up or is
   * not ready within `startTimeoutMs`.
   * @throws {KernelDiedError} The kernel or its gateway ended during the call.
   * @throws {RangeError} A limit is below 0, or `startTimeoutMs` is not positive.
   */
  static async start(options: KernelClientOptions): Promise<KernelClient> {
    return new KernelClient(await KernelHost.start(options));
  }

  /**
   * Runs code.
   *
   * @param code IPython code: Python, top-level `await`, magics and `!commands`.
   * @param options How it may be cancelled, and whether it goes into the history.
   * @returns The execution, which runs as soon as those before it have ended.
   */
  execute(code: string, options: ExecuteOptions = {}): Execution {
    const run = this.#host.prepare(code, options);
    void this.#host.run(run);
    return run;
  }

  /**
   * Interrupts the running execution, if any: its code sees a `KeyboardInterrupt`, which it may
   * catch to continue, unlike a cancellation.
   */
  async interrupt(): Promise<void> {
    await this.#host.interrupt();
  }

  /**
   * Reports whether code is complete or needs more lines.
   *
   * @param code IPython code, as far as it is typed.
   * @param options How long to wait for the answer.
   * @returns Its status, and the indentation of its next line.
   * @throws {DOMException} A `TimeoutError` when the kernel was busy for longer than `timeoutMs`.
   * @throws {KernelDiedError} The kernel died during the call.
   *
   * @example
   * ```ts
   * import type { KernelClient } from "@ipybox/ipybox/kernel";
   *
   * async function wantsMore(client: KernelClient): Promise<boolean> {
   *   return (await client.isComplete("for x in y:")).status === "incomplete"; // true
   * }
   * ```
   */
  async isComplete(code: string, options: TypedCodeOptions = {}): Promise<CodeStatus> {
    return await this.#host.isComplete(code, options);
  }

  /**
   * Completes code at a position.
   *
   * @param code IPython code, as far as it is typed.
   * @param cursor The position, as an index of the string.
   * @param options How long to wait for the answer.
   * @returns The completions, and the part of the code that each of them replaces.
   * @throws {RangeError} `cursor` is not a position between two characters of the code.
   * @throws {DOMException} A `TimeoutError` when the kernel was busy for longer than `timeoutMs`.
   * @throws {KernelDiedError} The kernel died during the call.
   *
   * @example
   * ```ts
   * import type { KernelClient } from "@ipybox/ipybox/kernel";
   *
   * async function complete(client: KernelClient, code: string): Promise<string[]> {
   *   const { matches, start, end } = await client.complete(code, code.length);
   *   return matches.map((match) => code.slice(0, start) + match + code.slice(end));
   * }
   * ```
   */
  async complete(
    code: string,
    cursor: number,
    options: TypedCodeOptions = {},
  ): Promise<CodeCompletions> {
    return await this.#host.complete(code, cursor, options);
  }

  /**
   * Replaces the kernel with a fresh one. An execution under way ends with an `AbortError`; those
   * that wait for their turn run in the fresh kernel.
   */
  async reset(): Promise<void> {
    await this.#host.reset();
  }

  /** Ends the kernel. An execution under way ends with an `AbortError`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#host[Symbol.asyncDispose]();
  }
}
