/**
 * A clock that moves only when told, in place of `setTimeout` and `performance.now`.
 */
export class FakeTime implements Disposable {
  #now = 0;
  #nextId = 1;
  #timers = new Map<number, { at: number; run: () => void }>();
  #real = {
    setTimeout: globalThis.setTimeout,
    clearTimeout: globalThis.clearTimeout,
    now: performance.now,
  };

  constructor() {
    Object.assign(globalThis, {
      setTimeout: (run: () => void, ms = 0) => {
        this.#timers.set(this.#nextId, { at: this.#now + ms, run });
        return this.#nextId++;
      },
      clearTimeout: (id: number | undefined) => {
        if (id !== undefined) this.#timers.delete(id);
      },
    });
    performance.now = () => this.#now;
  }

  /** Moves the clock on and runs the timers that come due, in order. */
  advance(ms: number): void {
    const until = this.#now + ms;
    for (;;) {
      const due = [...this.#timers].filter(([, timer]) => timer.at <= until)
        .sort(([, a], [, b]) => a.at - b.at)[0];
      if (due === undefined) break;
      const [id, timer] = due;
      this.#timers.delete(id);
      this.#now = timer.at;
      timer.run();
    }
    this.#now = until;
  }

  [Symbol.dispose](): void {
    globalThis.setTimeout = this.#real.setTimeout;
    globalThis.clearTimeout = this.#real.clearTimeout;
    performance.now = this.#real.now;
  }
}
