/** Pure functions on the text of outputs. */

/**
 * Shows text as a terminal would in the end: progress bars and live tables in their last state, without
 * colours and links. Takes linear time, even for hostile text.
 */
export function shownOnScreen(text: string): string {
  if (!MOVES.some((character) => text.includes(character))) return text;
  return new Screen().show(text.replaceAll("\r\n", "\n"));
}

/** Removes colours, links and all that moves a cursor. */
export function withoutEscapes(text: string): string {
  return text.includes("\x1b") ? text.replace(ESCAPE, "") : text;
}

const MOVES: readonly string[] = ["\r", "\b", "\x1b"];

/** A control sequence, a short command such as a link, or another escape sequence. */
const ESCAPE =
  // deno-lint-ignore no-control-regex -- it looks for these
  /\x1b(?:\[([0-9;?]*)[ -/]*([@-~])|\][^\x07\x1b\n]{0,4096}(?:\x07|\x1b\\)|[ -/]*[0-~]?)/g;

const TOKEN = new RegExp(`${ESCAPE.source}|[\r\b]|[^\x1b\r\b]+`, "g");

/** Handles text as terminals do, as far as programs that show their progress rely on it. */
class Screen {
  /** Lines; those that were written over are lists of their characters. */
  readonly #rows: (string | string[])[] = [""];
  #row = 0;
  /** Where in the row to write; at its end, if `undefined`. */
  #column: number | undefined;

  show(text: string): string {
    for (const [token, numbers, command] of text.matchAll(TOKEN)) {
      if (token === "\r") this.#column = 0;
      else if (token === "\b") {
        this.#column = Math.max(0, (this.#column ?? this.#cells().length) - 1);
      } else if (command !== undefined) this.#control(command, numbers);
      else if (!token.startsWith("\x1b")) this.#writeLines(token.split("\n"));
    }
    return this.#rows.map((row) => typeof row === "string" ? row : row.join("").trimEnd())
      .join("\n");
  }

  #writeLines(lines: readonly string[]): void {
    lines.forEach((line, index) => {
      if (index > 0) this.#goTo(this.#row + 1);
      if (line !== "") this.#write(line);
    });
  }

  #write(text: string): void {
    const row = this.#rows[this.#row];
    if (typeof row === "string" && (this.#column === undefined || row === "")) {
      this.#rows[this.#row] = row + text;
      this.#column = undefined;
      return;
    }
    const cells = this.#cells();
    let column = Math.min(this.#column ?? cells.length, cells.length);
    for (const character of text) cells[column++] = character;
    this.#column = column;
  }

  /** The characters of the row, to write over them. */
  #cells(): string[] {
    const row = this.#rows[this.#row] ?? "";
    return typeof row === "string" ? this.#rows[this.#row] = Array.from(row) : row;
  }

  #goTo(row: number): void {
    this.#row = row;
    this.#column = 0;
    if (row === this.#rows.length) this.#rows.push("");
  }

  #control(command: string, numbers = ""): void {
    const count = Number(numbers || 1);
    if (command === "A") this.#goTo(Math.max(0, this.#row - count) || 0);
    else if (command === "B") this.#goTo(Math.min(this.#rows.length - 1, this.#row + count) || 0);
    else if (command === "G") this.#column = count - 1 || 0;
    else if (command === "K") this.#erase(numbers);
    else if (command === "J" && !Number(numbers)) {
      this.#rows.length = this.#row + 1;
      this.#erase(numbers);
    }
  }

  /** Erases the line, or its rest. */
  #erase(numbers: string): void {
    if (numbers === "2") this.#rows[this.#row] = "";
    else if (!Number(numbers) && this.#column !== undefined) this.#cells().splice(this.#column);
  }
}

/** A size for people: `"812 bytes"`, `"19.1 MiB"`. */
export function formatBytes(bytes: number): string {
  if (bytes < 1024) return `${bytes} bytes`;
  const power = Math.min(UNITS.length, Math.floor(Math.log2(bytes) / 10));
  return `${(bytes / 1024 ** power).toFixed(1)} ${UNITS[power - 1]}`;
}

const UNITS = ["KiB", "MiB", "GiB"] as const;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** The size of text as UTF-8. */
export function byteLength(text: string): number {
  return encoder.encode(text).length;
}

/** The longest start of `text` within a number of bytes as UTF-8, whole characters only. */
export function firstBytes(text: string, limit: number): string {
  // No character takes less than a byte, so the rest of a long text need not be looked at.
  const bytes = encoder.encode(text.slice(0, Math.floor(limit) + 1));
  if (bytes.length <= limit) return text;
  let end = Math.floor(limit);
  while (end > 0 && isContinuation(bytes[end])) end--;
  return decoder.decode(bytes.subarray(0, end));
}

/** The longest end of `text` within a number of bytes as UTF-8, whole characters only. */
export function lastBytes(text: string, limit: number): string {
  const bytes = encoder.encode(text.slice(-Math.floor(limit) - 1));
  if (bytes.length <= limit) return text;
  let start = bytes.length - Math.floor(limit);
  while (start < bytes.length && isContinuation(bytes[start])) start++;
  return decoder.decode(bytes.subarray(start));
}

function isContinuation(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0xc0) === 0x80;
}

/** Text cut in its middle so that its start and its end take at most `limit` bytes together. */
export function cut(text: string, limit: number): string {
  if (3 * text.length <= limit) return text;
  const bytes = byteLength(text);
  if (bytes <= limit) return text;
  const missing = formatBytes(bytes - limit);
  return `${firstBytes(text, limit / 2)}\n[ipybox: ${missing} omitted here]\n${
    lastBytes(text, limit / 2)
  }`;
}

/** Whether a text would be cut within a surrogate pair at an index. */
export function isLowSurrogate(text: string, index: number): boolean {
  return (text.charCodeAt(index) & 0xfc00) === 0xdc00;
}
