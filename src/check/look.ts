import { z } from "zod";
import type { CellRange } from "./language_server.ts";

const name = z.string().max(1000);

const range = z.tuple([z.number(), z.number(), z.number(), z.number()]).transform(
  ([line, column, endLine, endColumn]): CellRange => ({ line, column, endLine, endColumn }),
);

const look = z.object({
  /** The code as IPython runs it, without comments. */
  text: z.string(),
  /** Whether it may set names that nobody can read off it. */
  dynamic: z.boolean(),
  /** The names of the session that it sets. */
  bound: z.array(name),
  /** The attributes that it sets, of whatever. */
  written: z.array(name),
  /** Names that it uses, and that nothing has set. */
  undefined: z.array(z.object({ name, range, near: name.nullable() })),
  /** The servers and modules of `mcptools` that it names; `""` for a server alone. */
  tools: z.array(z.tuple([name, name])),
  /** Where exceptions are expected. */
  guarded: z.array(range),
  /** Calls with positional or unpacked arguments, and these arguments. */
  loose: z.array(range),
});

const syntax = z.object({
  syntax: z.object({
    name: z.enum(["SyntaxError", "IndentationError", "TabError"]).catch("SyntaxError"),
    message: z.string(),
    line: z.number().int(),
    column: z.number().int(),
    source: z.string(),
  }),
});

/** What the kernel knows of code before it runs. */
export type Look = z.infer<typeof look>;

/** Code that Python cannot read. */
export type BadSyntax = z.infer<typeof syntax>["syntax"];

/** Reads the kernel's answer, in which code may have had its hand. */
export function parseLook(answer: string): { look: Look } | { syntax: BadSyntax } | undefined {
  const json: unknown = JSON.parse(answer);
  const bad = syntax.safeParse(json);
  if (bad.success) return { syntax: bad.data.syntax };
  const good = look.safeParse(json);
  return good.success ? { look: good.data } : undefined;
}
