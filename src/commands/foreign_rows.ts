/**
 * Rows of text from code, servers and schemas. Each begins with a mark, so that none of it can pass for
 * ipybox's own.
 */

import { visible } from "../approval/call_text.ts";
import { lineDiff } from "../approval/edits.ts";
import { wordRows, wrapped } from "../base/terminal.ts";

/** The mark before foreign text. */
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

/** Replaces the rows far from any change with their number. */
export function nearChanges<Row extends { readonly change: string | undefined }>(
  rows: readonly Row[],
): (Row | number)[] {
  const isFar = (index: number) =>
    rows.slice(Math.max(index - CONTEXT, 0), index + CONTEXT + 1)
      .every(({ change }) => change !== "-" && change !== "+");
  const shown: (Row | number)[] = [];
  for (let index = 0; index < rows.length;) {
    let end = index;
    while (rows[end]?.change === " " && isFar(end)) end++;
    if (end - index > 1) shown.push(end - index);
    else shown.push(...rows.slice(index, end = index + 1));
    index = end;
  }
  return shown;
}

/** The lines in which a text has changed; all of them, if its earlier version is unknown. */
export function changedLines(before: string | undefined, now: string): string[] {
  if (before === undefined) return now.trimEnd().split("\n");
  const lines = lineDiff(`${before.trimEnd()}\n`, `${now.trimEnd()}\n`);
  return nearChanges(lines).map((line) =>
    typeof line === "number" ? "…" : `${line.change} ${line.text.trimEnd()}`
  );
}

/** A foreign text, with a heading in ipybox's words. */
export interface ForeignPart {
  readonly heading: string;
  readonly lines: readonly string[];
}

/** Formats foreign texts below their headings. */
export function partRows(parts: readonly ForeignPart[], columns: number): string[] {
  return parts.flatMap(({ heading, lines }) => [
    ...heading === "" ? [] : [`${heading}:`],
    ...foreignText(lines.join("\n"), columns).trimEnd().split("\n"),
  ]);
}
