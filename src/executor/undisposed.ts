import type { Logger } from "../base/log.ts";

/**
 * The running executors. A program that ends with `Deno.exit()` while some are running gets a
 * warning: files that they would have removed stay. Deno fires no event if a signal or an uncaught
 * error ends it.
 */
class Undisposed {
  readonly #logs = new Map<object, Logger>();
  #listens = false;

  /** Adds an executor until disposed. */
  add(executor: object, log: Logger): Disposable {
    this.#logs.set(executor, log);
    if (!this.#listens) globalThis.addEventListener("unload", () => this.#warn());
    this.#listens = true;
    return { [Symbol.dispose]: () => void this.#logs.delete(executor) };
  }

  #warn(): void {
    const [log] = this.#logs.values();
    const count = this.#logs.size;
    log?.warn(
      `The program ends with ${
        count === 1 ? "a CodeExecutor that was" : `${count} CodeExecutors that were`
      } ` +
        "not disposed, so temporary folders stay: use `await using`, or call `[Symbol.asyncDispose]()`",
    );
  }
}

export const undisposed: Undisposed = new Undisposed();
