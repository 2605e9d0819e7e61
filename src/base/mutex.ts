/** A caller that waits for shares of a {@linkcode Semaphore}. */
interface Waiter {
  readonly count: number;
  readonly enter: () => void;
}

/** Lends out equal shares, such as slots or bytes. Callers wait in line until enough are free. */
export class Semaphore {
  readonly #total: number;
  readonly #waiting: Waiter[] = [];
  #free: number;

  constructor(total: number) {
    this.#total = total;
    this.#free = total;
  }

  /** Waits for shares; asking for more than all waits for all. */
  async acquire(signal?: AbortSignal, count: number = 1): Promise<Disposable> {
    signal?.throwIfAborted();
    const wanted = this.#least(count);
    if (this.#waiting.length === 0 && wanted <= this.#free) this.#free -= wanted;
    else await this.#turn(wanted, signal);
    return this.#lend(wanted);
  }

  /** Takes shares if they are free and nobody waits. */
  tryAcquire(count: number = 1): Disposable | undefined {
    const wanted = this.#least(count);
    if (this.#waiting.length > 0 || wanted > this.#free) return undefined;
    this.#free -= wanted;
    return this.#lend(wanted);
  }

  /** The shares to lend for a count. `NaN` would make all shares free. */
  #least(count: number): number {
    if (!(count >= 0)) throw new RangeError(`Cannot lend ${count} shares`);
    return Math.min(count, this.#total);
  }

  #lend(count: number): Disposable {
    let held = count;
    return {
      [Symbol.dispose]: () => {
        this.#free += held;
        held = 0;
        this.#admit();
      },
    };
  }

  #admit(): void {
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      if (next.count > this.#free) return;
      this.#free -= next.count;
      this.#waiting.shift();
      next.enter();
    }
  }

  #turn(count: number, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const waiter: Waiter = {
        count,
        enter: () => {
          signal?.removeEventListener("abort", leave);
          resolve();
        },
      };
      const leave = () => {
        this.#waiting.splice(this.#waiting.indexOf(waiter), 1);
        this.#admit(); // a smaller request behind it may fit now
        reject(signal?.reason);
      };
      this.#waiting.push(waiter);
      signal?.addEventListener("abort", leave, { once: true });
    });
  }
}

/** A lock that is granted in the order of the calls. */
export class Mutex extends Semaphore {
  constructor() {
    super(1);
  }
}
