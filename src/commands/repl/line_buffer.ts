import { unicodeWidth } from "@std/cli";
import { printable } from "../../base/log.ts";
import type { terminalSize } from "../../base/terminal.ts";

const graphemes = new Intl.Segmenter(undefined, { granularity: "grapheme" });

/** Code that is being typed, with a cursor. Positions are between grapheme clusters. */
export class LineBuffer {
  #text = "";
  #cursor = 0;
  #killed = "";

  get text(): string {
    return this.#text;
  }

  /** The position of the next character, as an index into the text. */
  get cursor(): number {
    return this.#cursor;
  }

  get beforeInLine(): string {
    return this.#text.slice(this.#lineStart(), this.#cursor);
  }

  get onLastLine(): boolean {
    return !this.#text.includes("\n", this.#cursor);
  }

  /** Replaces everything, and moves the cursor to a position, by default the end. */
  set(text: string, cursor: number = text.length): void {
    this.#text = text;
    this.#cursor = cursor;
  }

  insert(text: string): void {
    this.#replace(this.#cursor, this.#cursor, text);
  }

  /** Inserts a line with the same indentation. */
  insertLine(indent: string = /^[ \t]*/.exec(this.beforeInLine)?.[0] ?? ""): void {
    this.insert(`\n${indent}`);
  }

  /** Deletes the character before the cursor, or one level of indentation. */
  backspace(): void {
    const before = this.beforeInLine;
    const spaces = /^ +$/.test(before) ? (before.length - 1) % 4 + 1 : 0;
    this.#replace(spaces > 0 ? this.#cursor - spaces : this.#previous(), this.#cursor, "");
  }

  delete(): void {
    this.#replace(this.#cursor, this.#next(), "");
  }

  /** Deletes up to a position, and keeps the text for {@linkcode yank}. */
  kill(to: "lineStart" | "lineEnd" | "wordStart" | "wordEnd" | "spaceBefore"): void {
    const position = {
      lineStart: () => this.#lineStart(),
      // At the end of a line, joins it with the next one.
      lineEnd: () => Math.max(this.#lineEnd(), Math.min(this.#cursor + 1, this.#lineEnd() + 1)),
      wordStart: () => this.#wordStart(IN_WORD),
      wordEnd: () => this.#wordEnd(),
      spaceBefore: () => this.#wordStart(/^\S$/),
    }[to]();
    const [from, end] = [Math.min(position, this.#cursor), Math.max(position, this.#cursor)];
    this.#killed = this.#text.slice(from, end);
    this.#replace(from, end, "");
  }

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

  up(): boolean {
    const start = this.#lineStart();
    if (start === 0) return false;
    const above = start === 1 ? 0 : this.#text.lastIndexOf("\n", start - 2) + 1;
    this.#goTo(above, this.#column());
    return true;
  }

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

  /** The number of characters before the cursor in its line. */
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

/** The limit of the search for the end of a word. */
const MAX_WORD = 1000;

const IN_WORD = /^[\p{L}\p{N}_]$/u;

/** The terminal's rows while code is typed. */
export interface LineView {
  /** The beginning of the first line. */
  readonly prompt: string;
  /** The beginning of the other lines. */
  readonly continuation: string;
  readonly text: string;
  /** The position of the cursor, as an index into the text. */
  readonly cursor: number;
  /** The colors of line beginnings and parts of the text; none by default. */
  readonly colors?: LineColors;
}

/** Colors as parameters of SGR. */
interface LineColors {
  readonly prompt: string;
  /** In order, without overlaps. */
  readonly text: readonly ColoredPart[];
}

/** A part of a text, by indices into it, and its color as parameters of SGR. */
export interface ColoredPart {
  readonly start: number;
  readonly end: number;
  readonly color: string;
}

/** A view as rows of the terminal. */
interface Layout {
  /** Each begins and ends without colors. */
  readonly rows: readonly string[];
  /** The position of the cursor. */
  readonly row: number;
  readonly column: number;
}

/** Lays code out in rows. The last column stays empty, because terminals treat it differently. */
export function layout(view: LineView, columns: number): Layout {
  const { prompt, continuation, text, cursor, colors } = view;
  const limit = Math.max(columns - 1, 2);
  const rows: string[] = [""];
  let used = 0;
  let painted = "";
  let place: { row: number; column: number } | undefined;
  const paint = (color: string): void => {
    if (color === painted) return;
    if (painted !== "") rows[rows.length - 1] += "\x1b[0m";
    if (color !== "") rows[rows.length - 1] += `\x1b[${color}m`;
    painted = color;
  };
  const endRow = (): void => {
    paint("");
    rows.push("");
    used = 0;
  };
  const put = (piece: string, color = ""): void => {
    const width = unicodeWidth(piece);
    if (used + width > limit && used > 0) endRow();
    paint(color);
    rows[rows.length - 1] += piece;
    used += width;
  };
  const begin = (head: string): void => {
    for (const character of head) put(character, colors?.prompt);
  };
  begin(prompt);
  let part = 0;
  for (const { segment, index } of graphemes.segment(text)) {
    // A wide character that does not fit moves the cursor to the next row, too.
    const shown = segment === "\t" ? "    " : printable(segment);
    const pieces = segment === shown ? [segment] : [...shown];
    if (segment !== "\n" && used + unicodeWidth(pieces[0] ?? "") > limit) endRow();
    if (place === undefined && index >= cursor) place = { row: rows.length - 1, column: used };
    if (/^\r?\n$/.test(segment)) {
      endRow();
      begin(continuation);
      continue;
    }
    while ((colors?.text[part]?.end ?? Infinity) <= index) part++;
    const { start = Infinity, color = "" } = colors?.text[part] ?? {};
    for (const piece of pieces) put(piece, index >= start ? color : "");
  }
  paint("");
  place ??= { row: rows.length - 1, column: used };
  return { rows, ...place };
}

/** Draws code that is being typed, replacing its last drawing. */
export class LineScreen {
  readonly #write: (text: string) => void;
  readonly #size: typeof terminalSize;
  /** The row of the cursor within the drawn rows. */
  #row = 0;

  constructor(write: (text: string) => void, size: typeof terminalSize) {
    this.#write = write;
    this.#size = size;
  }

  /** Draws a view; if it is higher than the terminal, only the part around the cursor. */
  draw(view: LineView): void {
    const { columns, rows: height } = this.#size();
    const { rows, row, column } = layout(view, columns);
    const first = Math.max(0, Math.min(row - Math.floor(height / 2), rows.length - height));
    const shown = rows.slice(first, first + height);
    const below = shown.length - 1 - (row - first);
    this.#write(
      `${this.#toStart()}${shown.join("\r\n")}${move(below, "A")}\r${move(column, "C")}`,
    );
    this.#row = row - first;
  }

  clear(): void {
    this.#write(this.#toStart());
    this.#row = 0;
  }

  /** Leaves the drawing in place, with the cursor at its end, and moves to the next line. */
  leave(): void {
    this.#write("\r\n");
    this.#row = 0;
  }

  /** Leaves the drawing in place, because others have written below it. */
  forget(): void {
    this.#row = 0;
  }

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
