/**
 * Breaks bracketed Python code into lines of a width.
 *
 * @module
 */
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
