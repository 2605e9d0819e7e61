/** Measures for how long the event loop of this process stood still. Disposing it ends that. */
export class Stalls implements Disposable {
  #longest = 0;
  #last: number = performance.now();
  readonly #timer: ReturnType<typeof setInterval>;

  constructor() {
    this.#timer = setInterval(() => this.#look(), 10);
  }

  /** The longest, in milliseconds. */
  get longestMs(): number {
    this.#look();
    return this.#longest;
  }

  #look(): void {
    const now = performance.now();
    this.#longest = Math.max(this.#longest, now - this.#last);
    this.#last = now;
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }
}
