import { pause } from "./signals.ts";

/** A token bucket: a rate per second and a burst. */
export class RateLimit {
  readonly #perSecond: number;
  readonly #burst: number;
  #left: number;
  #at = performance.now();

  constructor(perSecond: number, burst: number) {
    this.#perSecond = perSecond;
    this.#burst = burst;
    this.#left = burst;
  }

  /** Waits until the debt from {@linkcode charge} is paid off. */
  async settled(signal?: AbortSignal): Promise<void> {
    this.#gain();
    await pause(-this.#left / this.#perSecond * 1000, signal);
  }

  /** Counts something whose size is known only afterwards. */
  charge(count: number): void {
    this.#gain();
    this.#left -= count;
  }

  /** Whether something may pass now; if so, it is counted. */
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
