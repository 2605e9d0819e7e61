import process from "node:process";

/**
 * The processor time that this thread has taken, in milliseconds: what limits on work are measured by,
 * as a clock on the wall counts the work of others on the same processors, too.
 */
export function cpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

/** Measures for how long this process computes without a turn of its event loop. Disposing it ends that. */
export class Stalls implements Disposable {
  #longest = 0;
  #last: number = cpuMs();
  readonly #timer: ReturnType<typeof setInterval>;

  constructor() {
    this.#timer = setInterval(() => this.#look(), 10);
  }

  /** The longest, in milliseconds of processor time. */
  get longestMs(): number {
    this.#look();
    return this.#longest;
  }

  #look(): void {
    const now = cpuMs();
    this.#longest = Math.max(this.#longest, now - this.#last);
    this.#last = now;
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }
}
