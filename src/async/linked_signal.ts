/**
 * A signal that aborts with the first of some others, until it is disposed.
 *
 * `AbortSignal.any()` does the same for signals whose end nobody knows, in ten times the time.
 */
export class LinkedSignal implements Disposable {
  readonly #controller = new AbortController();
  readonly #sources: readonly AbortSignal[];

  /** @param sources The others; those that were not given are left out. */
  constructor(...sources: (AbortSignal | undefined)[]) {
    this.#sources = sources.filter((source) => source !== undefined);
    for (const source of this.#sources) {
      if (source.aborted) this.#controller.abort(source.reason);
      else source.addEventListener("abort", this);
    }
  }

  /** The signal. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Takes the abortion of one of the others. */
  handleEvent({ currentTarget }: Event): void {
    if (currentTarget instanceof AbortSignal) this.#controller.abort(currentTarget.reason);
  }

  [Symbol.dispose](): void {
    for (const source of this.#sources) source.removeEventListener("abort", this);
  }
}
