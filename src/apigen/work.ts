/**
 * Bounds the work that a list of tools may cause. A few kilobytes of a hostile schema can ask for
 * merges, copies and texts without end, and one process serves all sessions.
 *
 * What is counted is work and not time, so that the same list always gives the same files. A unit is
 * about a tenth of a microsecond, or a few bytes of text that are kept.
 *
 * @module
 */

/** The work for the modules of a list: about a second. The largest real lists take a tenth of it. */
export const LIST_WORK = 12_000_000;

/** The work for one tool. */
export const TOOL_WORK = 3_000_000;

/** The work for reading a list, before any module is made of it. */
export const READ_LIST_WORK = 4_000_000;

/** The work for reading one tool of it. */
export const READ_WORK = 500_000;

/** What is being generated takes too much work. */
export class TooMuchWorkError extends RangeError {
  override readonly name: string = "TooMuchWorkError";
}

/** What is left for what is being generated. Generation is synchronous: there is one at a time. */
let left = Infinity;

/** Bounds the work of a function, which may be a part of another's. */
export function withWork<T>(limit: number, run: () => T): T {
  const outer = left;
  const given = Math.max(0, Math.min(limit, outer));
  left = given;
  try {
    return run();
  } finally {
    left = outer - (given - left);
  }
}

/** Work for several functions, between which others have their turn. */
export class WorkBudget {
  #left: number;

  /** @param limit All of it. */
  constructor(limit: number) {
    this.#left = limit;
  }

  /** Bounds the work of a function by what the ones before it have left. */
  run<T>(part: () => T): T {
    return withWork(this.#left, () => {
      try {
        return part();
      } finally {
        this.#left = left;
      }
    });
  }
}

/** How much work is left for what is being generated. */
export function workLeft(): number {
  return left;
}

/** Counts work before it is done. */
export function spend(amount: number): void {
  left -= amount;
  if (left < 0) throw new TooMuchWorkError("it takes too much work to process");
}

/** Counts the work of looking at a text, or of copying it. */
export function spendText(text: string): void {
  spend(1 + text.length / 8);
}
