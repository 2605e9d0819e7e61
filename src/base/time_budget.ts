import { LONGEST_TIMER_MS } from "./signals.ts";

/** Something for which code may be waiting, such as a person. */
export interface Waiting {
  /** How many requests are waiting. */
  readonly pending: number;
  /** Calls back with that number whenever it changes, until disposed. */
  onPendingChange(callback: (pending: number) => void): Disposable;
}

/** Counts what is waiting. */
export class WaitCount implements Waiting {
  readonly #watchers = new Set<(pending: number) => void>();
  #pending = 0;

  get pending(): number {
    return this.#pending;
  }

  onPendingChange(callback: (pending: number) => void): Disposable {
    this.#watchers.add(callback);
    return { [Symbol.dispose]: () => void this.#watchers.delete(callback) };
  }

  /** Counts one more, or one less. */
  count(change: 1 | -1): void {
    this.#pending += change;
    for (const watcher of this.#watchers) watcher(this.#pending);
  }
}

/** A time limit that is paused while any decision is pending. */
export class TimeBudget implements Disposable {
  #expiry = new AbortController();
  #left: number;
  #pending = 0;
  #startedAt = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** Starts the clock. `onTurn` is called whenever it starts again or pauses. */
  constructor(readonly timeoutMs?: number, readonly onTurn: () => void = () => {}) {
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

  /** Whether the clock runs. */
  get runs(): boolean {
    return this.#pending === 0;
  }

  /** The time left, in milliseconds. */
  get leftMs(): number {
    return this.#left - (this.runs ? performance.now() - this.#startedAt : 0);
  }

  /** Sets how many decisions are pending. The clock runs while there are none. */
  setPending(count: number): void {
    const [before, now] = [this.#pending > 0, count > 0];
    this.#pending = count;
    if (now === before) return;
    if (now) this.#stop();
    else this.#start();
    this.onTurn();
  }

  /** Pauses while anything waits for a person in one of these places, until disposed. */
  pauseWhilePending(places: readonly Waiting[]): Disposable {
    const update = () => this.setPending(places.reduce((sum, { pending }) => sum + pending, 0));
    const stack = new DisposableStack();
    for (const place of places) stack.use(place.onPendingChange(update));
    update(); // a thread of earlier code may already be waiting
    return stack;
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    this.#left = Infinity; // a late decision must not start the clock again
  }

  #stop(): void {
    clearTimeout(this.#timer);
    this.#left -= performance.now() - this.#startedAt;
  }

  #start(): void {
    this.#startedAt = performance.now();
    if (this.#left > LONGEST_TIMER_MS) return; // 24 days: setTimeout would fire immediately
    this.#timer = setTimeout(() => {
      this.#expiry.abort(new DOMException("The time limit was exceeded", "TimeoutError"));
    }, Math.max(0, this.#left));
  }
}
