/**
 * A time limit that stands still while somebody is being waited for.
 *
 * Pauses are counted: with two approvals pending, deciding one does not start the clock again.
 */
export class TimeBudget implements Disposable {
  #expiry = new AbortController();
  #left: number;
  #pauses = 0;
  #startedAt = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /**
   * Starts the clock.
   *
   * @param timeoutMs The limit in milliseconds; `undefined` for none.
   * @throws {RangeError} If the limit is not a number above 0.
   */
  constructor(readonly timeoutMs?: number) {
    if (timeoutMs !== undefined && !(timeoutMs > 0)) {
      throw new RangeError(`Cannot use a time limit of ${timeoutMs} ms: it must be above 0`);
    }
    this.#left = timeoutMs ?? Infinity;
    this.#start();
  }

  /** Aborts with a `TimeoutError` when the time is used up. */
  get signal(): AbortSignal {
    return this.#expiry.signal;
  }

  /** Whether the time is used up. */
  get expired(): boolean {
    return this.#expiry.signal.aborted;
  }

  /** Stops the clock until a promise settles, however it does. */
  pauseUntil(settled: PromiseLike<unknown>): void {
    this.#pause();
    const resume = () => this.#resume();
    settled.then(resume, resume);
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    this.#left = Infinity; // a late resume must not start the clock again
  }

  #pause(): void {
    if (++this.#pauses > 1) return;
    clearTimeout(this.#timer);
    this.#left -= performance.now() - this.#startedAt;
  }

  #resume(): void {
    if (--this.#pauses === 0) this.#start();
  }

  #start(): void {
    this.#startedAt = performance.now();
    if (this.#left > LONGEST_TIMER) return; // 24 days: setTimeout would fire at once
    this.#timer = setTimeout(() => {
      this.#expiry.abort(new DOMException("The time limit was exceeded", "TimeoutError"));
    }, Math.max(0, this.#left));
  }
}

const LONGEST_TIMER = 2 ** 31 - 1;
