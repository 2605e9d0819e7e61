import { LONGEST_TIMER_MS } from "./signals.ts";

/** A time limit that leaves no timer behind. */
export class Deadline implements Disposable {
  readonly #expiry: AbortController | undefined;
  readonly #timer: ReturnType<typeof setTimeout> | undefined;

  /** @param timeoutMs The limit in milliseconds; `undefined` for none. */
  constructor(timeoutMs: number | undefined) {
    if (timeoutMs === undefined || timeoutMs > LONGEST_TIMER_MS) return;
    const expiry = new AbortController();
    this.#expiry = expiry;
    this.#timer = setTimeout(() => {
      expiry.abort(new DOMException("The time limit was exceeded", "TimeoutError"));
    }, timeoutMs);
  }

  /** Aborts with a `TimeoutError` when the time is up; `undefined` where there is no limit. */
  get signal(): AbortSignal | undefined {
    return this.#expiry?.signal;
  }

  /** Whether the time is up. */
  get passed(): boolean {
    return this.#expiry?.signal.aborted ?? false;
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
  }
}
