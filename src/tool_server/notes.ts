/** How many notes are kept for a reader: servers cause them. */
const MAX_NOTES = 20;

/** What code should know of the servers that it calls, until somebody takes it. */
export class Notes {
  #waiting: string[] = [];

  /** Adds a note of one line, for whoever writes the code. */
  add(text: string): void {
    if (this.#waiting.length < MAX_NOTES) this.#waiting.push(text);
  }

  /** Takes what there is, in its order. */
  take(): string[] {
    const notes = this.#waiting;
    this.#waiting = [];
    return notes;
  }
}
