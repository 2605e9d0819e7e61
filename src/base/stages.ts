/**
 * Where startup and shutdown spend their time. There is one listener at a time; without a listener,
 * stages cost nothing.
 *
 * @module
 */

/** A named part of startup or shutdown. Stages overlap where work runs concurrently. */
export interface Stage {
  readonly name: string;
  /** When it began and ended, as `performance.now()`. */
  readonly from: number;
  readonly to: number;
}

let listener: ((stage: Stage) => void) | undefined;

/** Reports every stage as it ends, until disposed. */
export function listenToStages(onEnd: (stage: Stage) => void): Disposable {
  const earlier = listener;
  listener = onEnd;
  return { [Symbol.dispose]: () => void (listener = earlier) };
}

/** Begins a stage. Disposing it ends it. */
export function stage(name: string): Disposable {
  if (listener === undefined) return SILENT;
  const from = performance.now();
  return { [Symbol.dispose]: () => listener?.({ name, from, to: performance.now() }) };
}

/** Reports work as a stage. */
export async function during<T>(name: string, work: Promise<T>): Promise<T> {
  using _stage = stage(name);
  return await work;
}

const SILENT: Disposable = { [Symbol.dispose]() {} };
