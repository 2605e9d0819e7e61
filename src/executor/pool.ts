import { type Logger, stderrLogger } from "../base/log.ts";
import { ReadyPool } from "../base/ready_pool.ts";
import type { CodeExecutor } from "./code_executor.ts";

/** Options of {@linkcode ExecutorPool.start}. */
export interface ExecutorPoolOptions {
  /**
   * How many executors are kept ready. Each takes some 70 MB.
   *
   * @default {1}
   */
  size?: number;
  /**
   * Starts an executor, in a workspace that it shares with no other. The signal aborts when the pool is
   * disposed of; pass it to `CodeExecutor.start()`.
   */
  start: (signal: AbortSignal) => Promise<CodeExecutor>;
  /**
   * Receives why no executor is kept ready.
   *
   * @default {stderrLogger()}
   */
  log?: Logger;
}

/**
 * Executors that were started ahead, for programs that need many: who acquires one need not wait for its
 * kernel. Each is handed out once, and nobody has used it before.
 *
 * The pool sees to it that those it hands out answer: one whose kernel died is replaced. It starts the
 * next one half a second after it has handed one out, one at a time, and keeps none while less than a
 * twentieth of the machine's memory is free (where Deno's permission `sys=systemMemoryInfo` lets it see
 * that). Disposing it ends the executors that nobody has.
 *
 * After a change of what `start` uses, such as servers, start another pool and dispose of this one.
 *
 * @example
 * ```ts
 * import { CodeExecutor, ExecutorPool } from "@ipybox/ipybox";
 *
 * await using pool = await ExecutorPool.start({
 *   size: 2,
 *   start: async (signal) =>
 *     await CodeExecutor.start({ workspace: await Deno.makeTempDir(), signal }),
 * });
 *
 * await using executor = await pool.acquire(); // takes milliseconds
 * console.error((await executor.execute("6 * 7")).text); // 42
 * ```
 */
export class ExecutorPool implements AsyncDisposable {
  readonly #options: ExecutorPoolOptions;
  readonly #ready: ReadyPool<CodeExecutor>;

  private constructor(options: ExecutorPoolOptions, ready: ReadyPool<CodeExecutor>) {
    this.#options = options;
    this.#ready = ready;
  }

  /**
   * Starts the executors.
   *
   * @param options How many, and how each is started.
   * @returns The pool, full, unless memory is short.
   * @throws {RangeError} `size` is not a whole number above 0.
   * @throws {unknown} What `start` throws.
   */
  static async start(options: ExecutorPoolOptions): Promise<ExecutorPool> {
    const { size = 1, start, log = stderrLogger() } = options;
    if (!(Number.isSafeInteger(size) && size > 0)) {
      throw new RangeError(`size must be a whole number above 0, not ${size}`);
    }
    await using parts = new AsyncDisposableStack();
    const isFit = (executor: CodeExecutor) => executor.isReady();
    const ready = parts.use(new ReadyPool({ size, start, isFit, log }));
    await ready.fill();
    ready.keep();
    parts.move();
    return new ExecutorPool(options, ready);
  }

  /**
   * Hands out an executor that is ready, or else the one that is being started, or one that is started
   * for this. It is the caller's to dispose of; disposing the pool does not end it.
   *
   * @returns The executor.
   * @throws {DOMException} An `AbortError` once the pool is disposed of.
   * @throws {unknown} What `start` throws.
   */
  async acquire(): Promise<CodeExecutor> {
    const { closed } = this.#ready;
    closed.throwIfAborted();
    return await this.#ready.take({ waits: true }) ?? await this.#options.start(closed);
  }

  /** Ends the executors that nobody has. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#ready[Symbol.asyncDispose]();
  }
}
