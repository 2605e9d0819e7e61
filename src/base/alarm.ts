import { LONGEST_TIMER_MS } from "./signals.ts";

/** A timer that is postponed often and rarely fires: postponing it creates no new timer. */
export class Alarm implements Disposable {
  readonly #ring: () => void;
  readonly #keepsAlive: boolean;
  #at = Infinity;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** When the timer fires: at #at or earlier. */
  #timerAt = Infinity;

  constructor(ring: () => void, { keepsAlive = false }: { readonly keepsAlive?: boolean } = {}) {
    this.#ring = ring;
    this.#keepsAlive = keepsAlive;
  }

  /** Whether the alarm is going to ring. */
  get isSet(): boolean {
    return this.#at !== Infinity;
  }

  /** Rings after `ms`, instead of at the time set before. */
  set(ms: number): void {
    if (ms > LONGEST_TIMER_MS) return this.unset();
    this.#at = performance.now() + Math.max(0, ms);
    if (this.#at < this.#timerAt) this.#start();
  }

  /** Cancels the alarm. */
  unset(): void {
    this.#at = Infinity;
  }

  [Symbol.dispose](): void {
    this.unset();
    this.#stop();
  }

  #start(): void {
    this.#stop();
    this.#timerAt = this.#at;
    this.#timer = setTimeout(() => this.#fire(), Math.max(0, this.#at - performance.now()));
    if (!this.#keepsAlive) Deno.unrefTimer(this.#timer);
  }

  #stop(): void {
    clearTimeout(this.#timer);
    this.#timerAt = Infinity;
  }

  #fire(): void {
    this.#timerAt = Infinity;
    if (this.#at === Infinity) return;
    if (performance.now() < this.#at) return this.#start();
    this.#at = Infinity;
    this.#ring();
  }
}
