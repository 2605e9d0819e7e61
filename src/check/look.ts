import { z } from "zod";
import type { CellRange } from "./language_server.ts";

/** What the kernel knows of code before it runs. */
export interface Look {
  /** The file that it was read from. */
  readonly file: string | null;
  /** The code as IPython runs it, without comments. */
  readonly text: string;
  /** Whether it may set names that nobody can read off it. */
  readonly dynamic: boolean;
  /** Its imports of names that nothing else in it sets. */
  readonly imports: readonly string[];
  /** The names of the session that it sets. */
  readonly bound: readonly string[];
  /** The attributes that it and earlier code set, of whatever. */
  readonly written: readonly string[];
  /** Names that it uses, and that nothing has set. */
  readonly undefined: readonly {
    readonly name: string;
    readonly range: CellRange;
    readonly near: string | null;
  }[];
  /** The servers and modules of `mcptools` that it names; `""` for a server alone. */
  readonly tools: readonly (readonly [server: string, module: string])[];
  /** Where exceptions are expected. */
  readonly guarded: readonly CellRange[];
  /** Calls with positional or unpacked arguments, and these arguments. */
  readonly loose: readonly CellRange[];
  /** The line and the column at which the first call begins. */
  readonly calls: readonly [line: number, column: number] | null;
  /** Calls with arguments by keywords. */
  readonly keywords: readonly {
    readonly range: CellRange;
    /** For each keyword the types of what is written out in the list that is given. */
    readonly given: ReadonlyMap<string, readonly string[]>;
  }[];
}

/** Code that Python cannot read. */
export interface BadSyntax {
  readonly file: string | null;
  readonly name: string;
  readonly message: string;
  readonly line: number;
  readonly column: number;
  readonly source: string;
}

const name = z.string().max(1000);

const range = z.tuple([z.number(), z.number(), z.number(), z.number()]).transform(
  ([line, column, endLine, endColumn]): CellRange => ({ line, column, endLine, endColumn }),
);

const look: z.ZodType<Look> = z.object({
  file: z.string().nullable(),
  text: z.string(),
  dynamic: z.boolean(),
  imports: z.array(z.string()),
  bound: z.array(name),
  written: z.array(name),
  undefined: z.array(z.object({ name, range, near: name.nullable() })),
  tools: z.array(z.tuple([name, name])),
  guarded: z.array(range),
  loose: z.array(range),
  calls: z.tuple([z.number(), z.number()]).nullable(),
  keywords: z.array(z.object({
    range,
    given: z.array(z.tuple([name, z.array(name)])).transform((pairs) => new Map(pairs)),
  })),
});

const syntax = z.object({
  file: z.string().nullable(),
  syntax: z.object({
    name: z.enum(["SyntaxError", "IndentationError", "TabError"]).catch("SyntaxError"),
    message: z.string(),
    line: z.number().int(),
    column: z.number().int(),
    source: z.string(),
  }),
});

/** Reads the kernel's answer, in which code may have had its hand. */
export function parseLook(answer: string): { look: Look } | { syntax: BadSyntax } | undefined {
  const json: unknown = JSON.parse(answer);
  const bad = syntax.safeParse(json);
  if (bad.success) return { syntax: { file: bad.data.file, ...bad.data.syntax } };
  const good = look.safeParse(json);
  return good.success ? { look: good.data } : undefined;
}
