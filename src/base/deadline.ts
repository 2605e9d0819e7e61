import { LONGEST_TIMER_MS } from "./signals.ts";

/** Something for which code may be waiting, such as a person. */
interface Waiting {
  /** How many requests are waiting. */
  readonly pending: number;
  /** Calls back with that number whenever it changes, until disposed. */
  onPendingChange(callback: (pending: number) => void): Disposable;
}

/** Counts the waiting items. */
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

interface DeadlineOptions {
  /** The time that is left of the limit; all of it by default. */
  readonly leftMs?: number | undefined;
  /** Whether its timer keeps the program from ending; `true` by default. */
  readonly keepsAlive?: boolean;
  /** Called when the time is up. */
  readonly onPassed?: () => void;
  /** Called whenever the clock pauses or continues. */
  readonly onTurn?: () => void;
}

/** A time limit that can pause. Disposing it stops its clock for good. */
export class Deadline implements Disposable {
  readonly #options: DeadlineOptions;
  #expiry: AbortController | undefined;
  /** The time that was left when the clock last started or paused. */
  #leftMs: number;
  #startedAt = 0;
  #pauses = 0;
  /** Fires when the time is up, or earlier. */
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** @param timeoutMs The limit in milliseconds. */
  constructor(readonly timeoutMs: number = Infinity, options: DeadlineOptions = {}) {
    this.#options = options;
    this.#leftMs = options.leftMs ?? timeoutMs;
    if (!(this.#leftMs > LONGEST_TIMER_MS)) this.#expiry = new AbortController();
    this.#start();
  }

  /** Aborts with a `TimeoutError` when the time is up; `undefined` without a limit. */
  get signal(): AbortSignal | undefined {
    return this.#expiry?.signal;
  }

  /** Whether the time is up. */
  get passed(): boolean {
    return this.#expiry?.signal.aborted ?? false;
  }

  /** Whether the clock runs. */
  get runs(): boolean {
    return this.#pauses === 0;
  }

  /** The time left, in milliseconds. */
  get leftMs(): number {
    return this.#leftMs - (this.runs ? performance.now() - this.#startedAt : 0);
  }

  /** Stops the clock until this pause and all others are disposed of. */
  pause(): Disposable {
    const { leftMs } = this;
    if (this.#pauses++ === 0) {
      this.#leftMs = leftMs;
      this.#options.onTurn?.();
    }
    let isOver = false;
    return {
      [Symbol.dispose]: () => {
        if (isOver) return;
        isOver = true;
        if (--this.#pauses > 0) return;
        this.#start();
        this.#options.onTurn?.();
      },
    };
  }

  /** Pauses while anything waits for a person in one of these places, until disposed. */
  pauseWhilePending(places: readonly Waiting[]): Disposable {
    const stack = new DisposableStack();
    let pause: Disposable | undefined;
    const update = () => {
      if (places.some(({ pending }) => pending > 0)) return void (pause ??= this.pause());
      pause?.[Symbol.dispose]();
      pause = undefined;
    };
    for (const place of places) stack.use(place.onPendingChange(update));
    update(); // a thread of earlier code may already be waiting
    return stack;
  }

  /** For a limit on idle time: pauses while something is in use, and then starts with the whole time. */
  use(): Disposable {
    const pause = this.pause();
    return {
      [Symbol.dispose]: () => {
        this.restart();
        pause[Symbol.dispose]();
      },
    };
  }

  /** Starts again with the whole time, even if it was up. */
  restart(): void {
    this.#leftMs = this.timeoutMs;
    if (this.passed) this.#expiry = new AbortController();
    if (this.runs) this.#start();
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    this.#pauses = Infinity; // this pause has no end
  }

  /** Starts the clock. A timer from before a pause is kept, because timers are slow to create. */
  #start(): void {
    this.#startedAt = performance.now();
    if (this.#leftMs > LONGEST_TIMER_MS || this.#timer !== undefined) return;
    this.#timer = setTimeout(() => this.#fire(), Math.max(0, this.#leftMs));
    if (this.#options.keepsAlive === false) Deno.unrefTimer(this.#timer);
  }

  #fire(): void {
    this.#timer = undefined;
    if (!this.runs) return;
    this.#leftMs = this.leftMs;
    if (this.#leftMs > 0) return this.#start();
    this.#expiry?.abort(new DOMException("The time limit was exceeded", "TimeoutError"));
    this.#options.onPassed?.();
  }
}
