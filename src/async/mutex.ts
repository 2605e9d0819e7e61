/** A lock whose waiters take turns in the order in which they asked. */
export class Mutex {
  #last: Promise<void> = Promise.resolve();

  /** Waits for the lock. */
  async acquire(signal?: AbortSignal): Promise<Disposable> {
    signal?.throwIfAborted();
    const turn = Promise.withResolvers<void>();
    const before = this.#last;
    this.#last = before.then(() => turn.promise);
    const release: Disposable = { [Symbol.dispose]: () => turn.resolve() };
    if (signal === undefined) {
      await before;
      return release;
    }
    const aborted = Promise.withResolvers<never>();
    const abort = () => aborted.reject(signal.reason);
    signal.addEventListener("abort", abort, { once: true });
    try {
      await Promise.race([before, aborted.promise]);
      return release;
    } catch (reason) {
      turn.resolve();
      throw reason;
    } finally {
      signal.removeEventListener("abort", abort);
    }
  }
}
