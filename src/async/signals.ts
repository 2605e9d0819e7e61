/**
 * Joins signals, leaving out those that were not given.
 *
 * @param signals Signals or `undefined`.
 * @returns A signal that aborts with the first of them: the only one itself, or one that never aborts.
 */
export function anySignal(...signals: (AbortSignal | undefined)[]): AbortSignal {
  const given = signals.filter((signal) => signal !== undefined);
  const [only] = given;
  return given.length === 1 && only !== undefined ? only : AbortSignal.any(given);
}

/**
 * Waits for a promise, but no longer than until a signal aborts.
 *
 * @param promise What is waited for. It goes on when the signal aborts; a late rejection is ignored.
 * @param signal Ends the wait.
 * @returns The promise's value.
 * @throws {unknown} The signal's reason when it aborts first.
 */
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

/**
 * Waits for a promise for a limited time, without leaving a timer behind.
 *
 * @param promise What is waited for.
 * @param ms The longest wait, in milliseconds.
 * @returns Whether the promise settled in time. A rejection counts as settled.
 */
export async function settledWithin(promise: PromiseLike<unknown>, ms: number): Promise<boolean> {
  const timeout = Promise.withResolvers<boolean>();
  const timer = setTimeout(() => timeout.resolve(false), Math.min(ms, LONGEST_TIMER_MS));
  try {
    return await Promise.race([promise.then(() => true, () => true), timeout.promise]);
  } finally {
    clearTimeout(timer);
  }
}
