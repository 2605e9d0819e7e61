/**
 * Where the time of a start, and of an end, goes. One place at a time hears of each stage; while nobody
 * listens, a stage costs nothing.
 *
 * @module
 */

/** A named part of a start. Stages overlap where things happen side by side. */
export interface Stage {
  readonly name: string;
  /** When it began, and when it ended, in milliseconds of `performance.now()`. */
  readonly from: number;
  readonly to: number;
}

let listener: ((stage: Stage) => void) | undefined;

/** Has every stage reported as it ends, until disposed of. */
export function listenToStages(onEnd: (stage: Stage) => void): Disposable {
  const earlier = listener;
  listener = onEnd;
  return { [Symbol.dispose]: () => void (listener = earlier) };
}

/** Begins a stage. Disposing of it ends it. */
export function stage(name: string): Disposable {
  if (listener === undefined) return SILENT;
  const from = performance.now();
  return { [Symbol.dispose]: () => listener?.({ name, from, to: performance.now() }) };
}

/** Makes a stage of work that takes its time. */
export async function during<T>(name: string, work: Promise<T>): Promise<T> {
  using _stage = stage(name);
  return await work;
}

const SILENT: Disposable = { [Symbol.dispose]() {} };
