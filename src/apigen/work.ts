/**
 * Limits the work that a list of tools can cause. A few kilobytes of hostile schema can demand endless
 * merges, copies and text, and one process serves all sessions.
 *
 * The budget counts work, not time, so that the same list always yields the same files. A unit is about
 * a tenth of a microsecond, or a few bytes of text.
 *
 * @module
 */

/** The work for all modules of a list: about a second. The largest real lists take a tenth of it. */
export const LIST_WORK = 12_000_000;

/** The work for one tool. */
export const TOOL_WORK = 3_000_000;

/** The work for reading a list, before any module is generated. */
export const READ_LIST_WORK = 4_000_000;

/** The work for reading one tool. */
export const READ_WORK = 500_000;

/** The work budget is used up. */
export class TooMuchWorkError extends RangeError {
  override readonly name: string = "TooMuchWorkError";
}

/** The remaining work. Generation is synchronous, so there is one budget at a time. */
let left = Infinity;

/** Limits the work of a function. Budgets nest. */
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

/** A work budget for several functions with other work in between. */
export class WorkBudget {
  #left: number;

  constructor(limit: number) {
    this.#left = limit;
  }

  /** Runs a function on what is left of the budget. */
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

/** The remaining work. */
export function workLeft(): number {
  return left;
}

/** Counts work. Call it before doing the work. */
export function spend(amount: number): void {
  left -= amount;
  if (left < 0) throw new TooMuchWorkError("it takes too much work to process");
}

/** Counts the work of reading or copying text. */
export function spendText(text: string): void {
  spend(1 + text.length / 8);
}
