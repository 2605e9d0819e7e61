import { pause } from "./signals.ts";

/** A token bucket: a rate per second and a burst. */
export class RateLimit {
  readonly #perSecond: number;
  readonly #burst: number;
  #left: number;
  #at = performance.now();

  /** Begins with a whole burst. */
  constructor(perSecond: number, burst: number) {
    this.#perSecond = perSecond;
    this.#burst = burst;
    this.#left = burst;
  }

  /** Waits until nothing is owed for what {@linkcode charge} has counted. */
  async settled(signal?: AbortSignal): Promise<void> {
    this.#gain();
    await pause(-this.#left / this.#perSecond * 1000, signal);
  }

  /** Counts something whose size was known only when it had passed. */
  charge(count: number): void {
    this.#gain();
    this.#left -= count;
  }

  /** Lets something pass, if it may now. */
  take(count = 1): boolean {
    this.#gain();
    if (this.#left < count) return false;
    this.#left -= count;
    return true;
  }

  #gain(): void {
    const now = performance.now();
    const gained = (now - this.#at) / 1000 * this.#perSecond;
    this.#at = now;
    this.#left = Math.min(this.#burst, this.#left + gained);
  }
}
