import { LONGEST_TIMER_MS } from "./signals.ts";

/** A time limit that leaves no timer behind. */
export class Deadline implements Disposable {
  readonly #expiry = new AbortController();
  readonly #timer: ReturnType<typeof setTimeout> | undefined;

  /** @param timeoutMs The limit in milliseconds; `undefined` for none. */
  constructor(timeoutMs: number | undefined) {
    if (timeoutMs === undefined || timeoutMs > LONGEST_TIMER_MS) return;
    this.#timer = setTimeout(() => {
      this.#expiry.abort(new DOMException("The time limit was exceeded", "TimeoutError"));
    }, timeoutMs);
  }

  /** Aborts with a `TimeoutError` when the time is up. */
  get signal(): AbortSignal {
    return this.#expiry.signal;
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
  }
}
