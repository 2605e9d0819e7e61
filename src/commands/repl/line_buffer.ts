import { unicodeWidth } from "@std/cli";
import { printable } from "../terminal/columns.ts";

const graphemes = new Intl.Segmenter(undefined, { granularity: "grapheme" });

/** Code that is being typed, and where. Positions are between what a person takes for characters. */
export class LineBuffer {
  #text = "";
  #cursor = 0;
  #killed = "";

  /** The code. */
  get text(): string {
    return this.#text;
  }

  /** Where the next character goes, as an index of the text. */
  get cursor(): number {
    return this.#cursor;
  }

  /** The line with the cursor, up to it. */
  get beforeInLine(): string {
    return this.#text.slice(this.#lineStart(), this.#cursor);
  }

  /** Whether the cursor is on the last line. */
  get onLastLine(): boolean {
    return !this.#text.includes("\n", this.#cursor);
  }

  /** Replaces all, and puts the cursor at the end or where it is told. */
  set(text: string, cursor: number = text.length): void {
    this.#text = text;
    this.#cursor = cursor;
  }

  insert(text: string): void {
    this.#replace(this.#cursor, this.#cursor, text);
  }

  /** Begins a line that is indented as this one. */
  insertLine(indent: string = /^[ \t]*/.exec(this.beforeInLine)?.[0] ?? ""): void {
    this.insert(`\n${indent}`);
  }

  /** Deletes the character before the cursor, or a level of indentation. */
  backspace(): void {
    const before = this.beforeInLine;
    const spaces = /^ +$/.test(before) ? (before.length - 1) % 4 + 1 : 0;
    this.#replace(spaces > 0 ? this.#cursor - spaces : this.#previous(), this.#cursor, "");
  }

  delete(): void {
    this.#replace(this.#cursor, this.#next(), "");
  }

  /** Deletes up to a position and keeps that for {@linkcode yank}. */
  kill(to: "lineStart" | "lineEnd" | "wordStart" | "wordEnd" | "spaceBefore"): void {
    const position = {
      lineStart: () => this.#lineStart(),
      // At its end, the line is joined with the next one.
      lineEnd: () => Math.max(this.#lineEnd(), Math.min(this.#cursor + 1, this.#lineEnd() + 1)),
      wordStart: () => this.#wordStart(IN_WORD),
      wordEnd: () => this.#wordEnd(),
      spaceBefore: () => this.#wordStart(/^\S$/),
    }[to]();
    const [from, end] = [Math.min(position, this.#cursor), Math.max(position, this.#cursor)];
    this.#killed = this.#text.slice(from, end);
    this.#replace(from, end, "");
  }

  /** Inserts what was deleted last by {@linkcode kill}. */
  yank(): void {
    this.insert(this.#killed);
  }

  move(to: "left" | "right" | "lineStart" | "lineEnd" | "wordStart" | "wordEnd" | "end"): void {
    this.#cursor = {
      left: () => this.#previous(),
      right: () => this.#next(),
      lineStart: () => this.#lineStart(),
      lineEnd: () => this.#lineEnd(),
      wordStart: () => this.#wordStart(IN_WORD),
      wordEnd: () => this.#wordEnd(),
      end: () => this.#text.length,
    }[to]();
  }

  /** Goes to the line above, or says that there is none. */
  up(): boolean {
    const start = this.#lineStart();
    if (start === 0) return false;
    const above = start === 1 ? 0 : this.#text.lastIndexOf("\n", start - 2) + 1;
    this.#goTo(above, this.#column());
    return true;
  }

  /** Goes to the line below, or says that there is none. */
  down(): boolean {
    const end = this.#lineEnd();
    if (end === this.#text.length) return false;
    this.#goTo(end + 1, this.#column());
    return true;
  }

  #replace(from: number, to: number, text: string): void {
    this.#text = this.#text.slice(0, from) + text + this.#text.slice(to);
    this.#cursor = from + text.length;
  }

  #goTo(lineStart: number, column: number): void {
    this.#cursor = lineStart;
    const end = this.#lineEnd();
    for (let left = column; left > 0 && this.#cursor < end; left--) this.#cursor = this.#next();
  }

  /** How many characters of the line are before the cursor. */
  #column(): number {
    return [...graphemes.segment(this.beforeInLine)].length;
  }

  #previous(): number {
    if (this.#cursor === 0) return 0;
    return graphemes.segment(this.#text).containing(this.#cursor - 1)?.index ?? 0;
  }

  #next(): number {
    const here = graphemes.segment(this.#text).containing(this.#cursor);
    return here === undefined ? this.#text.length : here.index + here.segment.length;
  }

  #lineStart(): number {
    return this.#cursor === 0 ? 0 : this.#text.lastIndexOf("\n", this.#cursor - 1) + 1;
  }

  #lineEnd(): number {
    const end = this.#text.indexOf("\n", this.#cursor);
    return end === -1 ? this.#text.length : end;
  }

  #wordStart(inWord: RegExp): number {
    const before = [...this.#text.slice(Math.max(0, this.#cursor - MAX_WORD), this.#cursor)];
    let at = before.length;
    while (at > 0 && !inWord.test(before[at - 1] ?? "")) at--;
    while (at > 0 && inWord.test(before[at - 1] ?? "")) at--;
    return this.#cursor - before.slice(at).join("").length;
  }

  #wordEnd(): number {
    const after = this.#text.slice(this.#cursor, this.#cursor + MAX_WORD);
    return this.#cursor + (/^[^\p{L}\p{N}_]*[\p{L}\p{N}_]*/u.exec(after)?.[0].length ?? 0);
  }
}

/** How far the end of a word is looked for. */
const MAX_WORD = 1000;

/** A character of a word. */
const IN_WORD = /^[\p{L}\p{N}_]$/u;

/** What stands on the terminal while code is typed. */
export interface LineView {
  /** What the first line begins with. */
  readonly prompt: string;
  /** What the others begin with. */
  readonly continuation: string;
  readonly text: string;
  /** Where the cursor is, as an index of the text. */
  readonly cursor: number;
}

/** A view on rows of the terminal. */
interface Layout {
  readonly rows: readonly string[];
  /** Where the cursor is. */
  readonly row: number;
  readonly column: number;
}

/**
 * Lays code out on rows. The last column stays empty: terminals differ in what they do behind it.
 */
export function layout(view: LineView, columns: number): Layout {
  const { prompt, continuation, text, cursor } = view;
  const limit = Math.max(columns - 1, 2);
  const rows: string[] = [""];
  let used = 0;
  let place: { row: number; column: number } | undefined;
  const put = (piece: string): void => {
    const width = unicodeWidth(piece);
    if (used + width > limit && used > 0) {
      rows.push("");
      used = 0;
    }
    rows[rows.length - 1] += piece;
    used += width;
  };
  for (const character of prompt) put(character);
  for (const { segment, index } of graphemes.segment(text)) {
    // A wide character that does not fit takes the cursor with it.
    const shown = segment === "\t" ? "    " : printable(segment);
    const pieces = segment === shown ? [segment] : [...shown];
    if (segment !== "\n" && used + unicodeWidth(pieces[0] ?? "") > limit) {
      rows.push("");
      used = 0;
    }
    if (place === undefined && index >= cursor) place = { row: rows.length - 1, column: used };
    if (/^\r?\n$/.test(segment)) {
      rows.push("");
      used = 0;
      for (const character of continuation) put(character);
    } else for (const piece of pieces) put(piece);
  }
  place ??= { row: rows.length - 1, column: used };
  return { rows, ...place };
}

/** How large a terminal is. */
export interface TerminalSize {
  readonly columns: number;
  readonly rows: number;
}

/** Draws code that is being typed, always over what it has drawn before. */
export class LineScreen {
  readonly #write: (text: string) => void;
  readonly #size: () => TerminalSize;
  /** On which row of what is drawn the cursor is. */
  #row = 0;

  constructor(write: (text: string) => void, size: () => TerminalSize) {
    this.#write = write;
    this.#size = size;
  }

  /** Draws a view; of one that is higher than the terminal the part around the cursor. */
  draw(view: LineView, paint: (row: string, index: number) => string = (row) => row): void {
    const { columns, rows: height } = this.#size();
    const { rows, row, column } = layout(view, columns);
    const first = Math.max(0, Math.min(row - Math.floor(height / 2), rows.length - height));
    const shown = rows.slice(first, first + height);
    const painted = shown.map((text, index) => paint(text, first + index));
    const below = shown.length - 1 - (row - first);
    this.#write(
      `${this.#toStart()}${painted.join("\r\n")}${move(below, "A")}\r${move(column, "C")}`,
    );
    this.#row = row - first;
  }

  /** Takes away what is drawn. */
  clear(): void {
    this.#write(this.#toStart());
    this.#row = 0;
  }

  /** Leaves what is drawn where it is, with the cursor at its end, and goes to the next line. */
  leave(): void {
    this.#write("\r\n");
    this.#row = 0;
  }

  /** Leaves what is drawn where it is; others have written below it. */
  forget(): void {
    this.#row = 0;
  }

  /** Empties the terminal. */
  wipe(): void {
    this.#write("\x1b[H\x1b[2J");
    this.#row = 0;
  }

  #toStart(): string {
    return `${move(this.#row, "A")}\r\x1b[J`;
  }
}

function move(count: number, direction: "A" | "C"): string {
  return count > 0 ? `\x1b[${count}${direction}` : "";
}
