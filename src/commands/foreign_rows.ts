/**
 * Rows of what others wrote: code, servers, schemas. Each begins with a mark, so that none of it can
 * pass for what ipybox says.
 *
 * @module
 */

import { visible } from "../approval/call_text.ts";
import { wrapped } from "../base/log.ts";

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
