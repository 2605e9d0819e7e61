/**
 * Rows of text from code, servers and schemas. Each begins with a mark, so that none of it can pass for
 * ipybox's own.
 */

import { visible } from "../approval/call_text.ts";
import { wordRows, wrapped } from "../base/terminal.ts";

/** The mark before text of others. */
export const MARK = "  | ";

/** Wraps a text into marked rows. */
export function marked(text: string, columns: number): string[] {
  return wrapped(text, columns - MARK.length).map((row) => MARK + row);
}

/** Like {@linkcode marked}, but keeps words whole where they fit, for text that is only read. */
export function prose(text: string, columns: number): string[] {
  return wordRows(text, columns - MARK.length).map((row) => MARK + row);
}

/** Formats a text of several lines in marked rows. */
export function foreignText(text: string, columns: number): string {
  return text.split("\n").flatMap((line) => prose(visible(line), columns))
    .map((row) => `${row}\n`).join("");
}
