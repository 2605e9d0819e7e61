/** Terminal escape sequences, then every control character but the tab. */
const ESCAPES =
  // deno-lint-ignore no-control-regex -- control characters are what is looked for
  /\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]?/g;
// deno-lint-ignore no-control-regex -- as above
const CONTROLS = /[\x00-\x08\x0a-\x1f\x7f-\x9f]/g;

/** The longest line that is kept whole; what follows it counts as the next line. */
const MAX_LINE = 8 * 1024;

/**
 * Removes terminal escape sequences and control characters, which must not reach a terminal or a
 * log from a process that is not trusted.
 */
export function stripTerminalEscapes(text: string): string {
  return text.replace(ESCAPES, "").replace(CONTROLS, "");
}

/** Splits a process's output into plain lines and keeps the last of them. */
export class OutputTail {
  readonly #limit: number;
  readonly #decoder = new TextDecoder();
  #lines: string[] = [];
  #length = 0;
  #open = "";

  /** Begins with nothing. */
  constructor(limit: number = 16 * 1024) {
    this.#limit = limit;
  }

  /** What is kept, ended by a newline unless it is empty or its last line still is open. */
  get text(): string {
    return this.#lines.map((line) => line + "\n").join("") + stripTerminalEscapes(this.#open);
  }

  /** Takes the next bytes of the output. */
  push(bytes: Uint8Array): string[] {
    return this.#take(this.#decoder.decode(bytes, { stream: true }), false);
  }

  /** Takes the end of the output. */
  end(): string[] {
    return this.#take(this.#decoder.decode(), true);
  }

  #take(text: string, atEnd: boolean): string[] {
    const pieces = (this.#open + text).split(/\r\n|\n|\r(?!$)/);
    this.#open = pieces.pop() ?? "";
    if (atEnd && this.#open !== "") {
      pieces.push(this.#open);
      this.#open = "";
    }
    while (this.#open.length > MAX_LINE) {
      pieces.push(this.#open.slice(0, MAX_LINE));
      this.#open = this.#open.slice(MAX_LINE);
    }
    const lines = pieces.map(stripTerminalEscapes);
    for (const line of lines) this.#keep(line);
    return lines;
  }

  #keep(line: string): void {
    const kept = line.slice(-this.#limit);
    this.#lines.push(kept);
    this.#length += kept.length + 1;
    let dropped = 0;
    while (this.#length > this.#limit && dropped < this.#lines.length - 1) {
      this.#length -= (this.#lines[dropped++]?.length ?? 0) + 1;
    }
    if (dropped > 0) this.#lines = this.#lines.slice(dropped);
  }
}
