/** Lets so many through in a second, and a burst of so many at once. */
export class RateLimit {
  readonly #perSecond: number;
  readonly #burst: number;
  #left: number;
  #at = performance.now();

  /**
   * Begins with a whole burst.
   *
   * @param perSecond How many, in the long run.
   * @param burst How many at once after a quiet time.
   */
  constructor(perSecond: number, burst: number) {
    this.#perSecond = perSecond;
    this.#burst = burst;
    this.#left = burst;
  }

  /**
   * Lets something pass, if it may now.
   *
   * @param count As how many it counts.
   * @returns Whether it may.
   */
  take(count = 1): boolean {
    const now = performance.now();
    const gained = (now - this.#at) / 1000 * this.#perSecond;
    this.#at = now;
    this.#left = Math.min(this.#burst, this.#left + gained);
    if (this.#left < count) return false;
    this.#left -= count;
    return true;
  }
}
