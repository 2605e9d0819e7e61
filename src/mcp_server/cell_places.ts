import { Semaphore } from "../async/semaphore.ts";

/** How many cells of a session may run or wait for their turn, and how long their code may be together. */
const MAX_CELLS = 32;
const MAX_CODE = 16 * 2 ** 20;

/** A session has as many cells under way as it may have. */
export class TooManyCellsError extends Error {
  override readonly name: string = "TooManyCellsError";
}

/**
 * The places for a session's cells that have not ended. A client that asks for more than it waits for
 * is refused, as each waiting cell takes memory, even when its client has gone.
 */
export class CellPlaces {
  readonly #cells = new Semaphore(MAX_CELLS);
  readonly #code = new Semaphore(MAX_CODE);

  /** Takes a place. */
  admit(code: string): Disposable {
    using taken = new DisposableStack();
    if (taken.use(this.#cells.tryAcquire()) === undefined) throw refusal(`${MAX_CELLS} cells`);
    if (taken.use(this.#code.tryAcquire(code.length)) === undefined) {
      throw refusal("Cells with much code");
    }
    return taken.move();
  }
}

function refusal(what: string): TooManyCellsError {
  return new TooManyCellsError(
    `${what} run or wait for their turn in this session already: wait for their results, then run this one`,
  );
}
