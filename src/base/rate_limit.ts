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

  /** Whether something may pass now; if so, it is counted. */
  take(): boolean {
    const now = performance.now();
    const gained = (now - this.#at) / 1000 * this.#perSecond;
    this.#at = now;
    this.#left = Math.min(this.#burst, this.#left + gained);
    if (this.#left < 1) return false;
    this.#left--;
    return true;
  }
}
