/**
 * Breaks bracketed Python code into lines of a width.
 *
 * @module
 */
import { isArray, isObject, type Json, keyOf, toJson } from "./json.ts";
import { spend, spendText } from "./work.ts";

/** Code, with the places where it may break. */
export type Layout =
  | string
  | {
    readonly kind: "brackets";
    readonly open: string;
    readonly parts: readonly Layout[];
    readonly close: string;
  }
  | { readonly kind: "union"; readonly members: readonly Layout[] };

/** How long a line may be. Only literals that cannot be broken are longer. */
export const WIDTH = 100;

/** Code in brackets that may break after each part. */
export function breakable(open: string, parts: readonly Layout[], close: string): Layout {
  return { kind: "brackets", open, parts, close };
}

/** The code in one line. */
export function joined(layout: Layout): string {
  spend(1);
  if (typeof layout === "string") return layout;
  if (layout.kind === "union") return layout.members.map(joined).join(" | ");
  return layout.open + layout.parts.map(joined).join(", ") + layout.close;
}

/** The code in lines. */
export function laidOut(layout: Layout, column: number, indent: number, after = 0): string {
  const line = joined(layout);
  spendText(line);
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

/** Short parts, as many in a line as fit. */
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

/** A part on its own line. Unions need no brackets there, since they are in brackets already. */
function partOf(part: Layout, indent: number): string {
  if (typeof part === "string" || part.kind !== "union") return laidOut(part, indent, indent, 1);
  const line = joined(part);
  if (indent + line.length + 1 <= WIDTH) return line;
  return part.members
    .map((member) => laidOut(member, indent + 2, indent))
    .join("\n" + " ".repeat(indent) + "| ");
}

// Tells which modules of a package no longer fit the server's tools.

/** How a server's tools differ from those that its package was generated from. */
export interface StaleTools {
  /** Tools whose definition is another now. */
  readonly changed: readonly string[];
  /** Tools that the package does not have. */
  readonly added: readonly string[];
  /** Tools that the server no longer has. */
  readonly removed: readonly string[];
}

/** A `schema.json` that is larger was not generated. */
const MAX_SIZE = 64 * 1024 * 1024;

/** Compares a server's tools with those that its package was generated from. */
export async function findStaleTools(
  folder: string,
  tools: readonly unknown[],
): Promise<StaleTools> {
  const before = byName(await storedTools(`${folder}/schema.json`));
  const now = byName(tools);
  return {
    changed: [...now.keys()].filter((name) =>
      before.has(name) && before.get(name) !== now.get(name)
    ),
    added: [...now.keys()].filter((name) => !before.has(name)),
    removed: [...before.keys()].filter((name) => !now.has(name)),
  };
}

async function storedTools(path: string): Promise<readonly Json[]> {
  try {
    // Code in the sandbox can write here, and must not make the host read another file.
    const { isFile, size } = await Deno.lstat(path);
    if (!isFile || size > MAX_SIZE) return [];
    const stored = toJson(JSON.parse(await Deno.readTextFile(path)));
    const tools = isObject(stored) ? stored.get("tools") : undefined;
    return isArray(tools) ? tools : [];
  } catch (error) {
    const isUnreadable = error instanceof Deno.errors.NotFound || error instanceof SyntaxError ||
      error instanceof RangeError;
    if (!isUnreadable) throw error;
    return []; // what cannot be compared counts as new
  }
}

/** Each tool's definition as text that is the same for equal ones. The first of a name counts. */
function byName(tools: readonly unknown[]): Map<string, string> {
  const texts = new Map<string, string>();
  for (const tool of tools) {
    const json = readable(tool);
    const name = isObject(json) ? json.get("name") : undefined;
    if (typeof name === "string" && json !== undefined && !texts.has(name)) {
      texts.set(name, keyOf(json));
    }
  }
  return texts;
}

/** A tool as JSON; `undefined` if it nests so deeply that it was not generated from either. */
function readable(tool: unknown): Json | undefined {
  try {
    return toJson(tool);
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}
