/** Reads the code of Jupyter notebooks, and saves sessions as notebooks. */
import { z } from "zod";
import type { Output } from "../kernel/outputs.ts";
import { messageOf } from "../base/message_of.ts";
import { problemLines } from "../json/problems.ts";
import { UsageError } from "./command.ts";

/** A cell that was run. */
export interface RunCell {
  readonly code: string;
  readonly outputs: readonly Output[];
  /** The number of its prompt. */
  readonly count: number;
}

export function isNotebook(path: string): boolean {
  return path.endsWith(".ipynb");
}

const source = z.union([z.string(), z.array(z.string()).transform((lines) => lines.join(""))]);
const cell = z.union([
  z.object({ cell_type: z.literal("code"), source }).transform(({ source }) => source),
  z.object({ cell_type: z.string().refine((type) => type !== "code") }).transform(() => ""),
]);
const notebook = z.object({
  nbformat: z.literal(4, "it needs nbformat 4, which `jupyter nbconvert --to notebook` writes"),
  cells: z.array(cell),
  metadata: z.object({
    kernelspec: z.object({ language: z.string().optional() }).optional(),
    language_info: z.object({ name: z.string().optional() }).optional(),
  }).optional(),
});

/** The code cells of a notebook in order. `path` is its name in errors. */
export function codeCellsOf(text: string, path: string): string[] {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (cause) {
    throw new UsageError(`"${path}" is not a notebook: ${messageOf(cause)}`, { cause });
  }
  const { data, error } = notebook.safeParse(json);
  if (data === undefined) {
    throw new UsageError(`"${path}" is not a notebook that can run:\n${problemLines(error)}`);
  }
  const { kernelspec, language_info } = data.metadata ?? {};
  const language = language_info?.name ?? kernelspec?.language ?? "python";
  if (!/^(i?python\d?)$/i.test(language)) {
    throw new UsageError(`"${path}" is a notebook in ${language}: only Python can run`);
  }
  return data.cells.filter((code) => code.trim() !== "");
}

/** Writes cells as a notebook of format 4.5. */
export function notebookOf(cells: readonly RunCell[]): string {
  const notebook = {
    cells: cells.map(({ code, outputs, count }) => ({
      cell_type: "code",
      execution_count: count,
      id: crypto.randomUUID(),
      metadata: {},
      outputs: outputs.map((output) => outputOf(output, count)),
      source: code,
    })),
    metadata: {
      kernelspec: { display_name: "Python 3", language: "python", name: "python3" },
      language_info: { name: "python" },
    },
    nbformat: 4,
    nbformat_minor: 5,
  };
  return JSON.stringify(notebook, null, 1) + "\n";
}

function outputOf(output: Output, count: number): Record<string, unknown> {
  switch (output.type) {
    case "stream":
      return { output_type: "stream", name: output.name, text: output.text };
    case "execute_result":
    case "display_data": {
      const { type, data, metadata } = output;
      const counted = type === "execute_result" ? { execution_count: count } : {};
      return { output_type: type, ...counted, data: textsIn(data), metadata };
    }
    case "error": {
      const { ename, evalue, traceback } = output;
      return { output_type: "error", ename, evalue, traceback };
    }
  }
}

/** A MIME bundle as the format allows it: only JSON types can have values other than text. */
function textsIn(data: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const allowed = Object.entries(data).filter(([mime, value]) =>
    typeof value === "string" || /[/+]json$/.test(mime)
  );
  return Object.fromEntries(allowed);
}
