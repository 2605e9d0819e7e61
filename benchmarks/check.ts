// deno-lint-ignore-file no-console -- it reports to a terminal
/**
 * What checking a cell costs before it runs, how many programs with a mistake are stopped before their
 * first call, and that no right one is.
 *
 * Run it with `deno run -A benchmarks/check.ts [--all] [--misses]`. It takes every eighth tool of the
 * corpus beside the repository or in `IPYBOX_CORPUS`, and all tools with `--all`. It fails where a
 * right program is stopped, or too few of the others.
 *
 * @module
 */
import { CodeExecutor } from "../mod.ts";
import { silentLogger } from "../src/base/log.ts";
import { CORPUS, NO_CORPUS } from "../tests/support/corpus.ts";
import {
  type CheckedProgram,
  checkTools,
  generateCorpus,
  tally,
} from "../tests/support/corpus_check.ts";
import { LocalCheck } from "../tests/support/local_check.ts";
import { TempFolder } from "../tests/support/temp_folder.ts";
import { type ExampleTool, ToolPrograms } from "../tests/support/tool_programs.ts";
import { memoryOf, processesBelow, quantile, timesOf } from "./support.ts";

/** The least share of programs with a mistake that is stopped. */
const LEAST = 0.95;
const SEED = 1;
/** The server whose tools are called in the session, and how long that is. */
const SERVER = "github";
const CELLS = 20;
const CHECKS = 200;

if (CORPUS === undefined) {
  console.log(`Skipped: ${NO_CORPUS}`);
  Deno.exit(0);
}
const every = Deno.args.includes("--all") ? 1 : 8;

await using workspace = await TempFolder.create();
const mcptools = `${workspace.path}/mcptools`;
const tools = await generateCorpus(mcptools);
await measureSession(tools.filter(({ server }) => server === SERVER));
Deno.exitCode = await countStopped(tools.filter((_, at) => at % every === 0)) ? 0 : 1;

/** Times checks in a session that has run cells. */
async function measureSession(tools: readonly ExampleTool[]): Promise<void> {
  const options = { workspace: workspace.path, log: silentLogger };
  const programs = tools.flatMap((tool) => new ToolPrograms(tool, SEED).right())
    .map(({ lines }) => lines.join("\n"));
  await using plain = await CodeExecutor.start({ ...options, check: "off" });
  const cells = await timesOf(CHECKS, () => plain.execute("1"));
  await using executor = await CodeExecutor.start(options);
  let incomplete = 0;
  const check = async (at: number) => {
    const { isComplete } = await executor.check(programs[at % programs.length] ?? "");
    if (!isComplete) incomplete++;
  };
  const [first = NaN] = await timesOf(1, check);
  for (let cell = 0; cell < CELLS; cell++) {
    await executor.execute(`from mcptools.${SERVER} import get_me\nvalue_${cell} = [${cell}]`);
  }
  const checks = await timesOf(CHECKS, check);
  const row = (name: string, values: readonly number[]) =>
    `${name}: p50 ${quantile(values, 0.5).toFixed(1)} ms, p95 ${
      quantile(values, 0.95).toFixed(1)
    } ms`;
  console.log(row("an empty cell that is not checked", cells));
  console.log(`${row("a check", checks)}, the first ${first.toFixed(0)} ms`);
  if (incomplete > 0) console.log(`${incomplete} checks were not complete`);
  const ratio = quantile(checks, 0.5) / quantile(cells, 0.5);
  console.log(`a check takes ${ratio.toFixed(1)} x the time of an empty cell`);
  console.log(`the type checker holds ${await memoryOfChecker()} MiB (PSS)`);
}

/** The memory of the type checker below this process. */
async function memoryOfChecker(): Promise<string> {
  if (Deno.build.os !== "linux") return "?";
  for (const pid of await processesBelow(Deno.pid)) {
    const [program, command] = (await Deno.readTextFile(`/proc/${pid}/cmdline`)).split("\0");
    const isChecker = program?.endsWith("/ty") && command === "server";
    if (isChecker) return (await memoryOf(pid)).toFixed(0);
  }
  return "?";
}

/** Counts the programs that are stopped; `false` where these are not the right ones. */
async function countStopped(tools: readonly ExampleTool[]): Promise<boolean> {
  await using check = await LocalCheck.start(mcptools);
  const right = await Array.fromAsync(checkTools(check, tools, "right"));
  const alarms = right.filter(({ problems }) => problems.length > 0);
  console.log(
    `${tools.length} tools; ${alarms.length} of ${right.length} right programs are stopped`,
  );
  for (const { program, problems } of alarms) {
    console.log(`  ${program.tool}: ${problems[0]?.evalue}\n    ${program.lines.join("\n    ")}`);
  }
  const wrong = await Array.fromAsync(checkTools(check, tools, { seed: SEED }));
  const tallies = tally(wrong);
  for (const [mistake, { made, stopped }] of tallies) {
    console.log(`${mistake}: ${stopped} of ${made} are stopped, ${percent(stopped / made)}`);
  }
  if (Deno.args.includes("--misses")) show(wrong.filter(({ problems }) => problems.length === 0));
  const share = wrong.filter(({ problems }) => problems.length > 0).length / wrong.length;
  console.log(`all mistakes: ${percent(share)} of ${wrong.length} are stopped`);
  return alarms.length === 0 && share >= LEAST;
}

function show(programs: readonly CheckedProgram[]): void {
  for (const { program: { tool, mistake, lines } } of programs) {
    console.log(`  ${mistake} ${tool}\n    ${lines.slice(1).join("\n    ")}`);
  }
}

function percent(share: number): string {
  return `${(share * 100).toFixed(1)} %`;
}
