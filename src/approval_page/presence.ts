/** Whether somebody looks at a page: one is open, one may come any moment, or neither. */
export type PageState = "open" | "expected" | "away";

/** Counts the open pages, and knows of those that may come. */
export class Presence implements Disposable {
  readonly #expectations = new Map<object, ReturnType<typeof setTimeout>>();
  readonly #watchers = new Set<(state: PageState) => void>();
  #open = 0;
  #told: PageState = "away";

  /** What holds now. */
  get state(): PageState {
    if (this.#open > 0) return "open";
    return this.#expectations.size > 0 ? "expected" : "away";
  }

  /** Calls back whenever the state has changed, until disposed. */
  onChange(callback: (state: PageState) => void): Disposable {
    this.#watchers.add(callback);
    return { [Symbol.dispose]: () => void this.#watchers.delete(callback) };
  }

  /** A page may come. */
  expect(timeoutMs: number): Disposable {
    const key = {};
    const forget = () => {
      clearTimeout(this.#expectations.get(key));
      if (this.#expectations.delete(key)) this.#tell();
    };
    const timer = setTimeout(forget, timeoutMs);
    Deno.unrefTimer(timer); // nobody waits for a page alone
    this.#expectations.set(key, timer);
    this.#tell();
    return { [Symbol.dispose]: forget };
  }

  /** A page has come. */
  enter(graceMs: number): Disposable {
    let here = true;
    this.#open++;
    this.#tell();
    return {
      [Symbol.dispose]: () => {
        if (!here) return;
        here = false;
        this.#open--;
        this.expect(graceMs);
      },
    };
  }

  /** Expects nobody any more. */
  [Symbol.dispose](): void {
    for (const timer of this.#expectations.values()) clearTimeout(timer);
    this.#expectations.clear();
    this.#tell();
  }

  #tell(): void {
    const { state } = this;
    if (state === this.#told) return;
    this.#told = state;
    for (const watcher of this.#watchers) watcher(state);
  }
}
