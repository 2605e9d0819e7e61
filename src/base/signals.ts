import { setImmediate } from "node:timers";

/** Combines the signals that are defined. */
export function anySignal(...signals: (AbortSignal | undefined)[]): AbortSignal {
  const given = signals.filter((signal) => signal !== undefined);
  const [only] = given;
  return given.length === 1 && only !== undefined ? only : AbortSignal.any(given);
}

/** Waits for a promise until a signal aborts, if there is one. */
export function abortable<T>(promise: PromiseLike<T>, signal?: AbortSignal): Promise<T> {
  if (signal === undefined) return Promise.resolve(promise);
  if (signal.aborted) {
    Promise.resolve(promise).catch(() => {}); // nobody is waiting for it any more
    return Promise.reject(signal.reason);
  }
  return new Promise<T>((resolve, reject) => {
    const abort = () => reject(signal.reason);
    signal.addEventListener("abort", abort, { once: true });
    promise.then(resolve, reject).then(() => signal.removeEventListener("abort", abort));
  });
}

/** Calls back when a signal aborts, at once if it has already, until disposed. */
export function onAbort(signal: AbortSignal | undefined, act: () => void): Disposable {
  if (signal?.aborted) act();
  else signal?.addEventListener("abort", act, { once: true });
  return { [Symbol.dispose]: () => signal?.removeEventListener("abort", act) };
}

/** A longer timer, such as `Infinity`, would fire immediately. */
export const LONGEST_TIMER_MS: number = 2 ** 31 - 1;

/** Waits for a promise for a limited time. Resolves to whether it settled. */
export async function settledWithin(promise: PromiseLike<unknown>, ms: number): Promise<boolean> {
  const timeout = Promise.withResolvers<boolean>();
  const timer = setTimeout(() => timeout.resolve(false), Math.min(ms, LONGEST_TIMER_MS));
  try {
    return await Promise.race([promise.then(() => true, () => true), timeout.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** Aborts with the first of some signals until disposed, at a tenth of the cost of `AbortSignal.any()`. */
export class LinkedSignal implements Disposable {
  readonly #controller = new AbortController();
  readonly signal: AbortSignal = this.#controller.signal;
  readonly #sources: readonly AbortSignal[];

  constructor(...sources: (AbortSignal | undefined)[]) {
    this.#sources = sources.filter((source) => source !== undefined);
    for (const source of this.#sources) {
      if (source.aborted) this.#controller.abort(source.reason);
      else source.addEventListener("abort", this);
    }
  }

  /** Called when one of the sources aborts. */
  handleEvent({ currentTarget }: Event): void {
    if (currentTarget instanceof AbortSignal) this.#controller.abort(currentTarget.reason);
  }

  [Symbol.dispose](): void {
    for (const source of this.#sources) source.removeEventListener("abort", this);
  }
}

/** Waits for all promises like `Promise.all`, but rejects only once all of them have settled. */
export async function allDone<T extends readonly unknown[] | []>(
  promises: T,
): Promise<{ -readonly [K in keyof T]: Awaited<T[K]> }> {
  await Promise.allSettled(promises);
  return await Promise.all(promises);
}

/** Waits for some time. */
export async function pause(ms: number, signal?: AbortSignal): Promise<void> {
  signal?.throwIfAborted();
  if (ms <= 0) return;
  const over = Promise.withResolvers<void>();
  const timer = setTimeout(over.resolve, ms);
  try {
    await abortable(over.promise, signal);
  } finally {
    clearTimeout(timer);
  }
}

/** Gives the event loop a turn, which costs some ten microseconds, during long work. */
export function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
