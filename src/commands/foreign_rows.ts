/**
 * Rows of what others wrote: code, servers, schemas. Each begins with a mark, so that none of it can
 * pass for what ipybox says.
 *
 * @module
 */

import { visible } from "../approval/call_text.ts";
import { wordRows, wrapped } from "../base/terminal.ts";

/** What stands before all that others wrote. */
export const MARK = "  | ";

/** Breaks a text into marked rows. */
export function marked(text: string, columns: number): string[] {
  return wrapped(text, columns - MARK.length).map((row) => MARK + row);
}

/** Like {@linkcode marked}, for what is read and not sent: its words stay whole where they fit. */
export function prose(text: string, columns: number): string[] {
  return wordRows(text, columns - MARK.length).map((row) => MARK + row);
}

/** Shows a text of more than one line in marked rows. */
export function foreignText(text: string, columns: number): string {
  return text.split("\n").flatMap((line) => prose(visible(line), columns))
    .map((row) => `${row}\n`).join("");
}
