import type { Logger } from "./log.ts";
import { messageOf } from "./message_of.ts";
import { pause, settledWithin } from "./signals.ts";

/** Options of {@linkcode ReadyPool}. */
export interface ReadyPoolOptions<Item> {
  /** How many items to keep ready. */
  readonly size: number;
  /** Starts an item. The signal aborts when the pool is disposed of. */
  readonly start: (signal: AbortSignal) => Promise<Item>;
  /** Whether a ready item is still usable. */
  readonly isFit: (item: Item) => Promise<boolean>;
  /** Receives failures to start or end an item. */
  readonly log: Logger;
}

/** The pause before the next start: an item that was just handed out has the machine to itself. */
const HEAD_START_MS = 500;
/** How often ready items are checked. */
const CHECK_MS = 30_000;

/** Keeps items ready that are slow to start. The caller that takes one owns it. */
export class ReadyPool<Item extends AsyncDisposable> implements AsyncDisposable {
  readonly #options: ReadyPoolOptions<Item>;
  readonly #closed = new AbortController();
  /** Aborts when the pool is disposed of. */
  readonly closed: AbortSignal = this.#closed.signal;
  readonly #ready: Item[] = [];
  readonly #endings = new Set<Promise<void>>();
  readonly #takings = new Set<Promise<Item | undefined>>();
  /** The item that is being started, until a caller waits for it. */
  #starting: Promise<Item> | undefined;
  /** When an item was last handed out. */
  #takenAt = -Infinity;
  /** Whether the last start failed. The next call of `take` causes another one. */
  #hasFailed = false;
  #woken = Promise.withResolvers<void>();
  #keeping: Promise<void> = Promise.resolve();

  /** @param options The items to keep ready. */
  constructor(options: ReadyPoolOptions<Item>) {
    this.#options = options;
  }

  /** Starts the missing items, one after the other. */
  async fill(): Promise<void> {
    const { size, start } = this.#options;
    while (this.#ready.length < size) {
      await pause(this.#takenAt + HEAD_START_MS - performance.now(), this.closed);
      const starting = this.#starting = start(this.closed);
      try {
        const item = await starting;
        if (this.#starting === starting) this.#ready.push(item); // otherwise, a caller has it
      } finally {
        if (this.#starting === starting) this.#starting = undefined;
      }
    }
  }

  /** Keeps it full and fit from now on. */
  keep(): void {
    this.#keeping = this.#keep();
  }

  /** Hands out a ready item, if any; with `waits`, also the one that is being started. */
  async take({ waits }: { readonly waits: boolean }): Promise<Item | undefined> {
    const taking = this.#take(waits);
    this.#takings.add(taking);
    try {
      return await taking;
    } finally {
      this.#takings.delete(taking);
      this.#hasFailed = false;
      this.#woken.resolve();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed.abort(new DOMException("The pool was closed", "AbortError"));
    this.#woken.resolve();
    await this.#keeping;
    await Promise.allSettled(this.#takings);
    for (const item of this.#ready.splice(0)) this.#end(item);
    while (this.#endings.size > 0) await Promise.all(this.#endings);
  }

  async #take(waits: boolean): Promise<Item | undefined> {
    for (let item = await this.#next(waits); item !== undefined; item = await this.#next(waits)) {
      if (await this.#isFit(item) && !this.closed.aborted) {
        this.#takenAt = performance.now();
        return item;
      }
      this.#end(item);
    }
    return undefined;
  }

  async #next(waits: boolean): Promise<Item | undefined> {
    const ready = this.#ready.shift();
    if (ready !== undefined || !waits) return ready;
    const starting = this.#starting;
    this.#starting = undefined;
    return await starting?.catch(() => undefined); // fill() says why
  }

  async #keep(): Promise<void> {
    while (!this.closed.aborted) {
      this.#woken = Promise.withResolvers();
      try {
        await this.#check();
        if (!this.#hasFailed) await this.fill();
      } catch (error) {
        this.#hasFailed = true;
        if (this.closed.aborted) return;
        this.#options.log.warn(`Nothing is kept ready: ${messageOf(error)}`);
      }
      await settledWithin(this.#woken.promise, CHECK_MS);
    }
  }

  /** Ends items that are no longer usable. */
  async #check(): Promise<void> {
    for (const item of [...this.#ready]) {
      if (await this.#isFit(item)) continue;
      const place = this.#ready.indexOf(item);
      if (place === -1) continue; // handed out meanwhile, and checked there
      this.#ready.splice(place, 1);
      this.#end(item);
    }
  }

  async #isFit(item: Item): Promise<boolean> {
    try {
      return await this.#options.isFit(item);
    } catch (error) {
      this.#options.log.debug(`Cannot check whether an item kept ready is still usable: ${error}`);
      return false;
    }
  }

  #end(item: Item): void {
    const ending = Promise.resolve(item[Symbol.asyncDispose]()).catch((error: unknown) => {
      this.#options.log.error(`An item kept ready did not end cleanly: ${error}`);
    }).then(() => void this.#endings.delete(ending));
    this.#endings.add(ending);
  }
}
