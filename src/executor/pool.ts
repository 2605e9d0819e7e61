import { type Logger, stderrLogger } from "../base/log.ts";
import { ReadyPool } from "../base/ready_pool.ts";
import type { CodeExecutor } from "./code_executor.ts";

/** Options of {@linkcode ExecutorPool.start}. */
export interface ExecutorPoolOptions {
  /**
   * How many executors to keep ready. Each takes about 70 MB.
   *
   * @default {1}
   */
  size?: number;
  /**
   * Starts an executor in its own workspace. The signal aborts when the pool is disposed; pass it to
   * `CodeExecutor.start()`.
   */
  start: (signal: AbortSignal) => Promise<CodeExecutor>;
  /**
   * Receives the reasons why no executor is kept ready.
   *
   * @default {stderrLogger()}
   */
  log?: Logger;
}

/**
 * Executors that were started ahead, for programs that need many and should not wait for kernels. Each
 * is handed out once, unused.
 *
 * The pool hands out only executors whose kernel answers, and replaces those whose kernel died. Half a
 * second after handing one out, it starts the next, one at a time. Disposing it ends the executors that
 * were not handed out.
 *
 * When something that `start` depends on changes, such as servers, start another pool and dispose this one.
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
   * @param options The size, and how to start an executor.
   * @returns The pool, which is full.
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
   * Hands out an executor that is ready, or else the one that is being started, or a new one. The
   * caller must dispose it; disposing the pool does not end it.
   *
   * @returns The executor.
   * @throws {DOMException} An `AbortError` once the pool is disposed.
   * @throws {unknown} What `start` throws.
   */
  async acquire(): Promise<CodeExecutor> {
    const { closed } = this.#ready;
    closed.throwIfAborted();
    return await this.#ready.take({ waits: true }) ?? await this.#options.start(closed);
  }

  /** Ends the executors that were not handed out. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#ready[Symbol.asyncDispose]();
  }
}
