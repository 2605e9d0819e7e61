/**
 * Checks programs that call the tools of the corpus.
 *
 * @module
 */
import { generatePackage } from "../../src/apigen/generate.ts";
import { type Json, toJson } from "../../src/apigen/json.ts";
import { readPackage } from "../../src/apigen/package.ts";
import type { CodeProblem } from "../../src/check/problems.ts";
import { corpusServers, packageName, toolExamples } from "./corpus.ts";
import type { LocalCheck } from "./local_check.ts";
import { type ExampleTool, type Mistake, type ToolProgram, ToolPrograms } from "./tool_programs.ts";

/** A program, and what the check is certain of. */
export interface CheckedProgram {
  readonly program: ToolProgram;
  readonly problems: readonly CodeProblem[];
}

/** Programs in one cell: each problem says which line it is in. */
const PROGRAMS_IN_A_CELL = 25;

/** Generates the packages of the corpus' servers, and gives their tools. */
export async function generateCorpus(mcptools: string): Promise<ExampleTool[]> {
  const tools: ExampleTool[] = [];
  for (const listing of corpusServers()) {
    const server = packageName(listing.server);
    await generatePackage(server, listing, { rootDir: mcptools });
    const examples = new Map(toolExamples(listing.server).map((one) => [one.tool, one]));
    const definitions = await readPackage(mcptools, server) ?? [];
    const modules = definitions.map(({ module }) => module);
    for (const { name: tool, module, definition } of definitions) {
      const { valid, results } = examples.get(tool) ?? {};
      const of = { valid: jsonOf(valid), results: jsonOf(results) };
      tools.push({ server, tool, module, modules, definition, ...of });
    }
  }
  return tools;
}

/** Checks the programs of tools: the right ones, or those with a mistake that a seed makes. */
export async function* checkTools(
  check: LocalCheck,
  tools: readonly ExampleTool[],
  which: "right" | { readonly seed: number },
): AsyncGenerator<CheckedProgram> {
  for (const [server, some] of Map.groupBy(tools, (tool) => tool.server)) {
    const programs = some.flatMap((tool) =>
      which === "right"
        ? new ToolPrograms(tool, 0).right()
        : new ToolPrograms(tool, which.seed).wrong()
    );
    // A program that imports a tool that is not there cannot stand behind calls: they may make one.
    const importing = programs.filter(({ mistake }) => mistake === "wrong tool");
    for (const program of importing) yield* checkCell(check, [program], server);
    const calling = programs.filter(({ mistake }) => mistake !== "wrong tool");
    for (let at = 0; at < calling.length; at += PROGRAMS_IN_A_CELL) {
      yield* checkCell(check, calling.slice(at, at + PROGRAMS_IN_A_CELL), server);
    }
  }
}

async function* checkCell(
  check: LocalCheck,
  programs: readonly ToolProgram[],
  server: string,
): AsyncGenerator<CheckedProgram> {
  const { certain } = await check.check(programs.flatMap(({ lines }) => lines).join("\n"), [
    server,
  ]);
  let line = 0;
  for (const program of programs) {
    const end = line + program.lines.length;
    const problems = certain.filter((problem) => problem.line >= line && problem.line < end);
    yield { program, problems };
    line = end;
  }
}

/** How many programs with a mistake there are, and how many of them were stopped. */
export interface Tally {
  made: number;
  stopped: number;
}

/** Counts programs by their mistakes. */
export function tally(checked: readonly CheckedProgram[]): Map<Mistake, Tally> {
  const tallies = new Map<Mistake, Tally>();
  for (const { program: { mistake }, problems } of checked) {
    if (mistake === undefined) continue;
    const one = tallies.get(mistake) ?? { made: 0, stopped: 0 };
    one.made++;
    if (problems.length > 0) one.stopped++;
    tallies.set(mistake, one);
  }
  return tallies;
}

function jsonOf(values: readonly unknown[] = []): Json[] {
  return values.map((value) => toJson(value) ?? null);
}
