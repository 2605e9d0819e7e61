import type { Waiting } from "../base/time_budget.ts";
import type { InputRequest } from "../kernel/execution.ts";

/** What {@linkcode CodeInputs} need. */
export interface CodeInputsOptions {
  /** Resolves once what the code wrote before is told. */
  readonly flush: () => Promise<void>;
  /** Told of each question. */
  readonly tell: (request: InputRequest) => void;
}

/**
 * The questions of one execution's code, each told after what the code wrote before it. There is one
 * at a time: where code forges more than can be told, the last one counts.
 */
export class CodeInputs implements Waiting {
  readonly #options: CodeInputsOptions;
  readonly #watchers = new Set<(pending: number) => void>();
  #latest: InputRequest | undefined;
  #isTelling = false;
  #pending = 0;

  /** @param options Who is told, and when. */
  constructor(options: CodeInputsOptions) {
    this.#options = options;
  }

  /** How many questions are open. */
  get pending(): number {
    return this.#pending;
  }

  /** Calls back with the number of open questions whenever it changes, until disposed. */
  onPendingChange(callback: (pending: number) => void): Disposable {
    this.#watchers.add(callback);
    return { [Symbol.dispose]: () => void this.#watchers.delete(callback) };
  }

  /** Takes a question. */
  take(request: InputRequest): void {
    this.#count(1);
    request.closed.then(() => this.#count(-1));
    this.#latest = request;
    if (!this.#isTelling) this.#tellLatest();
  }

  async #tellLatest(): Promise<void> {
    this.#isTelling = true;
    while (this.#latest !== undefined) {
      const request = this.#latest;
      await this.#options.flush();
      if (request !== this.#latest) continue;
      this.#latest = undefined;
      if (!request.signal.aborted) this.#options.tell(request);
    }
    this.#isTelling = false;
  }

  #count(change: 1 | -1): void {
    this.#pending += change;
    for (const watcher of this.#watchers) watcher(this.#pending);
  }
}
