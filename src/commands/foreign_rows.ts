/**
 * Rows of what others wrote: code, servers, schemas. Each begins with a mark, so that none of it can
 * pass for what ipybox says.
 *
 * @module
 */

import { visible } from "../approval/call_text.ts";

/** What stands before all that others wrote. */
export const MARK = "  | ";

/** Breaks a text into marked rows. */
export function marked(text: string, columns: number): string[] {
  return wrapped(text, columns - MARK.length).map((row) => MARK + row);
}

/** Like {@linkcode marked}, for what is read and not sent: its words stay whole where they fit. */
export function prose(text: string, columns: number): string[] {
  const rows: string[] = [];
  let rest = text;
  while (rest !== "") {
    // A description may be megabytes: only what a row can hold is looked at.
    const [row = ""] = wrapped(rest.slice(0, 2 * columns), columns - MARK.length);
    const space = row.length < rest.length ? row.lastIndexOf(" ") : -1;
    const end = space > row.length / 2 ? space + 1 : row.length;
    rows.push(MARK + rest.slice(0, end).trimEnd());
    rest = rest.slice(end);
  }
  return rows.length === 0 ? [MARK] : rows;
}

/** Shows a text of more than one line in marked rows. */
export function foreignText(text: string, columns: number): string {
  return text.split("\n").flatMap((line) => prose(visible(line), columns))
    .map((row) => `${row}\n`).join("");
}

/** Breaks a text into rows. */
export function wrapped(text: string, width: number): string[] {
  const rows = [""];
  let used = 0;
  for (const character of text) {
    const wide = widthOf(character);
    if (used + wide > Math.max(width, 2)) {
      rows.push("");
      used = 0;
    }
    rows[rows.length - 1] += character;
    used += wide;
  }
  return rows;
}

/**
 * The most columns that a text can take. Terminals differ in what they make of many characters: a
 * row that got longer than expected would go on where no mark is.
 */
export function widthOf(text: string): number {
  let width = 0;
  for (const character of text) width += (character.codePointAt(0) ?? 0) < 0x1100 ? 1 : 2;
  return width;
}
