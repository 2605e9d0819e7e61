import { unicodeWidth } from "@std/cli";
import { printable } from "../printable.ts";

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
export interface Layout {
  readonly rows: readonly string[];
  /** Where the cursor is. */
  readonly row: number;
  readonly column: number;
}

const graphemes = new Intl.Segmenter(undefined, { granularity: "grapheme" });

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
