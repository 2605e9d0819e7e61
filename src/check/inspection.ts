import { z } from "zod";
import { checkJson } from "../json/measure.ts";
import type { CellRange } from "./language_server.ts";

/** Longer code is not checked: analyzing it would delay the kernel for too long. */
export const MAX_CODE = 30_000;

// Limits on the work that an answer causes. Code of the length above needs less.
const MAX_ANSWER = 1 << 20;
const MAX_VALUES = 100_000;
const MAX_NAMES = 2000;
const MAX_RANGES = 10_000;
/** IPython expands magics, which makes lines longer. */
const MAX_COLUMN = 10 * MAX_CODE;

const name = z.string().max(1000);
const names = z.array(name).max(MAX_NAMES);
/** The types of Python's literals and displays: there are few. */
const types = z.array(z.string().regex(/^\w{1,20}$/)).max(20);
const line = z.number().int().min(0).max(MAX_CODE);
const column = z.number().int().min(0).max(MAX_COLUMN);

const range = z.tuple([line, column, line, column]).transform(
  ([line, column, endLine, endColumn]): CellRange => ({ line, column, endLine, endColumn }),
);

/** Servers and modules become paths, so only plain names are accepted. */
const tools = z.array(z.tuple([name, name])).max(100).transform((tools) =>
  tools.filter(([server, module]) => PLAIN.test(server) && (module === "" || PLAIN.test(module)))
);
const PLAIN = /^[A-Za-z_]\w{0,199}$/;

const inspection = z.object({
  /** The file that the code was read from. */
  file: name.nullable(),
  /** The code as IPython runs it, without comments. */
  text: z.string(),
  /** Whether it may set names that cannot be determined statically. */
  dynamic: z.boolean(),
  /** Its imports of names that it does not set otherwise. */
  imports: z.array(z.string()).max(MAX_NAMES),
  /** The global names that it sets. */
  bound: names,
  /** The names of attributes that it and earlier code set, on any object. */
  written: names,
  /** Names that it uses although nothing has set them. */
  undefined: z.array(z.object({
    name,
    range,
    near: name.nullable(),
    /** Whether it is in no branch, loop body or the like. */
    runs: z.boolean(),
    /** Whether what runs before it, such as a call, may set names. */
    late: z.boolean(),
  })).max(100),
  /** The servers and modules of `mcptools` that it names; the module is `""` for a server alone. */
  tools,
  /** Where exceptions are expected. */
  guarded: z.array(range).max(MAX_RANGES),
  /**
   * Calls with positional or unpacked arguments, and the unpacked arguments themselves; likewise
   * dictionaries whose keys are not all written out, and the keys that are not.
   */
  loose: z.array(range).max(MAX_RANGES),
  /** Where the first call begins. */
  calls: z.tuple([line, column]).nullable(),
  /** Calls with keyword arguments. */
  keywords: z.array(z.object({
    range,
    /** For each keyword whose argument is a list display, the types of the literals in it. */
    given: z.array(z.tuple([name, types])).transform((pairs) => new Map(pairs)),
  })).max(MAX_NAMES),
});

/** The kernel's knowledge of code before it runs. */
export type Inspection = Readonly<z.infer<typeof inspection>>;

const syntax = z.object({
  file: name.nullable(),
  syntax: z.object({
    name: z.enum(["SyntaxError", "IndentationError", "TabError"]).catch("SyntaxError"),
    message: z.string().max(1000),
    line,
    column: z.number().int().min(-1).max(MAX_COLUMN), // -1 if Python does not know it
    source: z.string(),
  }),
});

/** A syntax error. */
export type BadSyntax = Readonly<
  z.infer<typeof syntax>["syntax"] & { file: string | null }
>;

/** Parses the kernel's answer, which executed code may have tampered with. */
export function parseInspection(
  answer: string,
): { inspection: Inspection } | { syntax: BadSyntax } | undefined {
  if (answer.length > MAX_ANSWER) return undefined;
  checkJson(new TextEncoder().encode(answer), MAX_VALUES);
  const json: unknown = JSON.parse(answer);
  const bad = syntax.safeParse(json);
  if (bad.success) return { syntax: { file: bad.data.file, ...bad.data.syntax } };
  const good = inspection.safeParse(json);
  return good.success ? { inspection: good.data } : undefined;
}
