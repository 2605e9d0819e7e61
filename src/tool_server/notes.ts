/** How many notes are kept for a reader, and how long one may be: servers cause them. */
const MAX_NOTES = 20;
const MAX_CHARACTERS = 600;

/** What code should know of the servers that it calls, until somebody takes it: each thing once. */
export class Notes {
  readonly #waiting = new Set<string>();
  readonly #said = new Set<string>();

  /**
   * Adds a note.
   *
   * @param text One line for whoever writes the code. What servers say in it cannot be seen through it.
   * @param once What it is about, where that is not to be said again.
   */
  add(text: string, once?: string): void {
    if (this.#waiting.size >= MAX_NOTES || (once !== undefined && this.#said.has(once))) return;
    if (once !== undefined) this.#said.add(once);
    this.#waiting.add(text.slice(0, MAX_CHARACTERS));
  }

  /** Takes what there is, in its order. */
  take(): string[] {
    const notes = [...this.#waiting];
    this.#waiting.clear();
    return notes;
  }
}
