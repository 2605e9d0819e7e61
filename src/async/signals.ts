/** Joins signals, leaving out those that were not given. */
export function anySignal(...signals: (AbortSignal | undefined)[]): AbortSignal {
  const given = signals.filter((signal) => signal !== undefined);
  const [only] = given;
  return given.length === 1 && only !== undefined ? only : AbortSignal.any(given);
}

/** Waits for a promise, but no longer than until a signal aborts. */
export function abortable<T>(promise: PromiseLike<T>, signal: AbortSignal): Promise<T> {
  if (signal.aborted) {
    Promise.resolve(promise).catch(() => {}); // nobody is left to hear of it
    return Promise.reject(signal.reason);
  }
  return new Promise<T>((resolve, reject) => {
    const abort = () => reject(signal.reason);
    signal.addEventListener("abort", abort, { once: true });
    promise.then(resolve, reject).then(() => signal.removeEventListener("abort", abort));
  });
}

/** A longer timer, as of `Infinity`, would fire at once. */
export const LONGEST_TIMER_MS: number = 2 ** 31 - 1;

/** Waits for a promise for a limited time, without leaving a timer behind. */
export async function settledWithin(promise: PromiseLike<unknown>, ms: number): Promise<boolean> {
  const timeout = Promise.withResolvers<boolean>();
  const timer = setTimeout(() => timeout.resolve(false), Math.min(ms, LONGEST_TIMER_MS));
  try {
    return await Promise.race([promise.then(() => true, () => true), timeout.promise]);
  } finally {
    clearTimeout(timer);
  }
}
