/**
 * Writes Python: literals, docstrings, and bracketed code that wraps at a width. Text from servers
 * cannot become code: it reaches a file only as a literal or a docstring.
 *
 * @module
 */
import { isArray, isObject, type Json, JsonNumber } from "./json.ts";

/** The longest line, except for literals that cannot be broken. */
const WIDTH = 100;

/** Characters that end lines in some tools, are invisible, or reverse text in editors. */
const UNSEEN =
  /[\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

export function literal(value: Json): string {
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (typeof value === "string") {
    return JSON.stringify(value).replace(UNSEEN, escaped);
  }
  if (value instanceof JsonNumber) return value.source;
  if (isArray(value)) return `[${value.map(literal).join(", ")}]`;
  if (isObject(value)) {
    return `{${
      [...value].map(([name, inner]) => `${literal(name)}: ${literal(inner)}`).join(", ")
    }}`;
  }
  return "None";
}

/** A JSON value for docstrings: a literal, with single quotes where nothing needs escaping. */
export function quoted(value: Json): string {
  const text = literal(value);
  return typeof value === "string" && !/["'\\]/.test(text.slice(1, -1))
    ? `'${text.slice(1, -1)}'`
    : text;
}

/** A docstring. */
export function docstring(text: string, indent = 0): string {
  const safe = normalized(text).replaceAll("\\", "\\\\").replace(UNSEEN_IN_DOC, escaped);
  const pad = " ".repeat(indent);
  const width = WIDTH - indent;
  // The first line shares its row with three quotes, a single line with all six.
  const body = protectQuotes(wrap(safe || ".", width - 6, width).join("\n"));
  if (!body.includes("\n")) return `"""${body}"""`;
  return `"""${body.replaceAll(/\n(?=[^\n])/g, `\n${pad}`)}\n${pad}"""`;
}

const UNSEEN_IN_DOC = new RegExp(`[\\u0000-\\u0008\\u000b-\\u001f]|${UNSEEN.source}`, "g");

function normalized(text: string): string {
  return dedented(text.toWellFormed().replaceAll(/\r\n?/g, "\n")).trim();
}

/** Removes the common indentation of all lines but the first, like `inspect.cleandoc()`. */
function dedented(text: string): string {
  const [first = "", ...others] = text.split("\n");
  const indents = others.filter((line) => line.trim() !== "")
    .map((line) => line.length - line.trimStart().length);
  const least = indents.reduce((low, indent) => Math.min(low, indent), Infinity);
  return least === Infinity ? text : [first, ...others.map((line) => line.slice(least))].join("\n");
}

/** Text with spaces in place of its line breaks. */
export function oneLine(text: string): string {
  return text.replaceAll(/\s+/g, " ").trim();
}

function escaped(char: string): string {
  return `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/** Escapes quotes that would end the docstring. */
function protectQuotes(text: string): string {
  return text.replaceAll(/"""|"$/g, (quotes) => quotes.replace(/"$/, '\\"'));
}

/** Wraps text at white space; lines keep their indentation. */
function wrap(text: string, first: number, width: number): string[] {
  const lines: string[] = [];
  for (const line of text.split("\n")) {
    const trimmed = line.trimEnd();
    const limit = lines.length === 0 ? first : width;
    if (trimmed.length <= limit) lines.push(trimmed);
    else lines.push(...wrapLine(trimmed, limit, width));
  }
  return lines;
}

function wrapLine(line: string, first: number, width: number): string[] {
  const indent = (/^[ \t]*(?:[-*•] |\d+\. )?/.exec(line)?.[0] ?? "").slice(0, 20);
  const hang = " ".repeat(indent.length);
  const lines: string[] = [];
  let current = "";
  for (const word of line.slice(indent.length).split(/[ \t]+/)) {
    const limit = lines.length === 0 ? first : width;
    const start = current === "" ? (lines.length === 0 ? indent : hang) : `${current} `;
    if (current !== "" && start.length + word.length > limit) {
      lines.push(current);
      current = hang + word;
    } else {
      current = start + word;
    }
  }
  return [...lines, current];
}

/** Code that can break into lines in certain places. */
export type Layout =
  | string
  | {
    readonly kind: "brackets";
    readonly open: string;
    readonly parts: readonly Layout[];
    readonly close: string;
  }
  | { readonly kind: "union"; readonly members: readonly Layout[] };

/** Bracketed code that can break after each part. */
export function breakable(open: string, parts: readonly Layout[], close: string): Layout {
  return { kind: "brackets", open, parts, close };
}

/** The code on one line. */
export function joined(layout: Layout): string {
  if (typeof layout === "string") return layout;
  if (layout.kind === "union") return layout.members.map(joined).join(" | ");
  return layout.open + layout.parts.map(joined).join(", ") + layout.close;
}

/** The code, broken into lines where it is too long. */
export function laidOut(layout: Layout, column: number, indent: number, after = 0): string {
  const line = joined(layout);
  if (typeof layout === "string" || column + line.length + after <= WIDTH) return line;
  const inner = indent + 4;
  const pad = "\n" + " ".repeat(inner);
  if (layout.kind === "union") {
    const members = layout.members.map((member) => laidOut(member, inner + 2, inner));
    return `(${pad}${members.join(`${pad}| `)}\n${" ".repeat(indent)})`;
  }
  if (layout.parts.every((part) => typeof part === "string")) {
    return `${layout.open}${filled(layout.parts, pad)}\n${" ".repeat(indent)}${layout.close}`;
  }
  const parts = layout.parts.map((part) => pad + partOf(part, inner) + ",");
  return `${layout.open}${parts.join("")}\n${" ".repeat(indent)}${layout.close}`;
}

/** Code between two texts on one line, broken into lines where it is too long. */
export function lineOf(start: string, layout: Layout, end = "", indent = 0): string {
  return start + laidOut(layout, indent + start.length, indent, end.length) + end;
}

/** A class. What follows the first line of a part of its body is indented already. */
export function classText(head: string, body: readonly string[], empty = "..."): string {
  return `class ${head}:\n    ${body.length === 0 ? empty : body.join("\n    ")}`;
}

/** Parts, as many on each line as fit. */
function filled(parts: readonly string[], pad: string): string {
  let text = "";
  let column = Infinity;
  for (const part of parts) {
    const fits = column + part.length + 2 <= WIDTH;
    text += fits ? ` ${part},` : `${pad}${part},`;
    column = (fits ? column + 1 : pad.length - 1) + part.length + 1;
  }
  return text;
}

/** A part on its own line. Unions need no parentheses there, inside the outer brackets. */
function partOf(part: Layout, indent: number): string {
  if (typeof part === "string" || part.kind !== "union") return laidOut(part, indent, indent, 1);
  const line = joined(part);
  if (indent + line.length + 1 <= WIDTH) return line;
  return part.members
    .map((member) => laidOut(member, indent + 2, indent))
    .join("\n" + " ".repeat(indent) + "| ");
}
