/**
 * Rows of text from code, servers and schemas. Each begins with a mark, so that none of it can pass for
 * ipybox's own.
 */

import { visible } from "../approval/call_text.ts";
import { lineDiff } from "../approval/edits.ts";
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

/** How many lines around a change are shown. */
const CONTEXT = 2;

/** The lines in which a text has changed; all of them, if its earlier version is unknown. */
export function changedLines(before: string | undefined, now: string): string[] {
  if (before === undefined) return now.trimEnd().split("\n");
  const lines = lineDiff(`${before.trimEnd()}\n`, `${now.trimEnd()}\n`);
  const isNear = (at: number) =>
    lines.slice(Math.max(0, at - CONTEXT), at + CONTEXT + 1).some(({ change }) => change !== " ");
  return lines.flatMap(({ change, text }, at) => {
    if (isNear(at)) return [`${change} ${text.trimEnd()}`];
    return at === 0 || isNear(at - 1) ? ["…"] : [];
  });
}

/** A text of others, and what it is in ipybox's words. */
export interface ForeignPart {
  readonly heading: string;
  readonly lines: readonly string[];
}

/** Formats such texts. */
export function partRows(parts: readonly ForeignPart[], columns: number): string[] {
  return parts.flatMap(({ heading, lines }) => [
    ...heading === "" ? [] : [`${heading}:`],
    ...foreignText(lines.join("\n"), columns).trimEnd().split("\n"),
  ]);
}
