// deno-lint-ignore-file no-console -- a script talks to whoever started it
/**
 * `deno task test [PATH…] [OPTION…]`: sets up what the tests need, runs them, and closes with the
 * line `N passed, N failed, N skipped`. Options are those of `deno test`, such as `--filter=NAME`.
 *
 * @module
 */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { setUp } from "../src/commands/setup.ts";
import { EnvironmentNotReadyError } from "../src/base/errors.ts";
import { allDone, anySignal } from "../src/base/signals.ts";
import { whyCode } from "../src/process/trusted_path.ts";
import { type EnvironmentRecipe, KERNEL_MODULES } from "../src/python/managed.ts";
import { installChromium } from "./support/browser.ts";
import { INSPECTOR } from "./support/command_line_clients.ts";
import { pythonServers } from "./support/python_servers.ts";
import { closingLine, summarize, type TestSummary, total } from "./support/test_summary.ts";

const root = new URL("../", import.meta.url);

/** All that kernels need, and what tests use in code actions. */
async function testRecipe(): Promise<EnvironmentRecipe> {
  return {
    requirements: await Deno.readTextFile(new URL("tests/python/requirements.txt", root)),
    modules: { ...KERNEL_MODULES, matplotlib: "matplotlib" },
  };
}

/**
 * Runs test files, a few in each process: one process for all of them would hold a gigabyte and
 * more, which makes each start of a program slow.
 */
async function runTests(
  args: readonly string[],
  { python, interrupt }: { readonly python: string; readonly interrupt: AbortSignal },
): Promise<TestSummary> {
  const { paths, options } = splitArgs(args);
  const files = await filesIn(paths);
  const directory = await Deno.makeTempDir({ prefix: "ipybox-tests-" });
  const isLive = files.length <= BATCH;
  const signal = anySignal(interrupt, AbortSignal.timeout(LONGEST_MS));
  const start = { options, python, directory, isLive, signal };
  const runs: TestRun[] = [];
  const runSome = async () => {
    while (files.length > 0 && !signal.aborted) {
      runs.push(await runFiles(files.splice(0, BATCH), start));
    }
  };
  try {
    // Tests wait for other programs most of their time.
    const jobs = Number(Deno.env.get("DENO_JOBS")) || navigator.hardwareConcurrency * 2 + 2;
    await allDone(Array.from({ length: Math.max(jobs, 1) }, runSome));
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
  interrupt.throwIfAborted();
  if (runs.length > 1) { // once more, where people look for it
    for (const { output, summary } of runs) if (summary.failed > 0) console.log(output);
  }
  return total(runs.map(({ summary }) => summary));
}

/** A process that ran tests. */
interface TestRun {
  readonly output: string;
  readonly summary: TestSummary;
}

async function runFiles(
  files: readonly string[],
  { options, python, directory, isLive, signal }: {
    readonly options: readonly string[];
    readonly python: string;
    readonly directory: string;
    /** Whether to print the output as it comes, and not at the end. */
    readonly isLive: boolean;
    readonly signal: AbortSignal;
  },
): Promise<TestRun> {
  const report = `${directory}/${files[0]?.replaceAll("/", "-")}.xml`;
  const flags = ["-A", "--no-check", `--junit-path=${report}`];
  const child = new Deno.Command(Deno.execPath(), {
    args: ["test", ...flags, ...options, ...files],
    cwd: root,
    // The registrations, logins and workspaces of whoever runs the tests stay as they are.
    env: {
      IPYBOX_PYTHON: python,
      XDG_STATE_HOME: `${directory}/state`,
      XDG_DATA_HOME: `${directory}/data`,
    },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
    signal,
  }).spawn();
  let output = "";
  const collect = async (stream: ReadableStream<BufferSource>) => {
    for await (const text of stream.pipeThrough(new TextDecoderStream())) {
      output += text;
      if (isLive) Deno.stdout.writeSync(new TextEncoder().encode(text));
    }
  };
  await allDone([collect(child.stdout), collect(child.stderr)]);
  if (!isLive) console.log(output);
  const { success } = await child.status;
  const junit = await Deno.readTextFile(report).catch(() => ""); // missing after a crash
  return { output, summary: summarize(output, junit, success) };
}

/** The number of files that a process runs. */
const BATCH = 4;

/** The paths among arguments, by default all tests, and the options. */
function splitArgs(
  args: readonly string[],
): { readonly paths: readonly string[]; readonly options: readonly string[] } {
  const isOption = (arg: string, i: number) => arg.startsWith("-") || args[i - 1] === "--filter";
  const paths = args.filter((arg, i) => !isOption(arg, i));
  return { paths: paths.length > 0 ? paths : ALL, options: args.filter(isOption) };
}

/** The test files among and below paths, each once. */
async function filesIn(paths: readonly string[]): Promise<string[]> {
  const files = new Set<string>();
  for (const path of paths) {
    const { isDirectory } = await Deno.stat(new URL(path, root));
    const names = isDirectory ? await readdir(new URL(path, root), { recursive: true }) : [];
    const below = names.filter((name) => name.endsWith("_test.ts")).sort();
    for (const file of isDirectory ? below.map((name) => join(path, name)) : [path]) {
      files.add(file);
    }
  }
  return [...files];
}

/** Checks the types of the tests, and shows the errors. Resolves to whether there were none. */
async function checkTypes(args: readonly string[]): Promise<boolean> {
  const { paths } = splitArgs(args);
  const { success } = await new Deno.Command(Deno.execPath(), {
    args: ["test", "--no-run", "--quiet", ...paths],
    cwd: root,
    stdin: "null",
    stdout: "inherit",
    stderr: "inherit",
  }).output();
  return success;
}

/** A run that takes longer hangs; what it printed last names the test. */
const LONGEST_MS = 75 * 60_000;

/**
 * All tests. Those that take longest come first, or one processor would be left with them in the
 * end.
 */
const ALL = [
  "tests/cli/mcp_page_test.ts",
  "tests/cli/repl_test.ts",
  "tests/cli/run_test.ts",
  "tests/cli/setup_test.ts",
  "tests/cli/terminal_test.ts",
  "tests/docs_commands_test.ts",
  "tests/integration/apigen_corpus_test.ts",
  "tests/integration/approval_page_test.ts",
  "tests/security/http_sessions_test.ts",
  "tests/security/workspace_links_test.ts",
  "tests/security/worst_cells_test.ts",
  "src/python/build_test.ts",
  "src",
  "tests", // with those of agents, whose programs are there by then
];

/** What tests run from npm beside the imports, such as MCP servers. */
const PROGRAMS = [
  "npm:@modelcontextprotocol/server-everything@2026.8.31",
  "npm:@modelcontextprotocol/server-filesystem@2026.8.31",
  "npm:@modelcontextprotocol/server-memory@2026.8.31",
  "npm:@modelcontextprotocol/server-sequential-thinking@2026.8.31",
  "npm:@modelcontextprotocol/server-gitlab@2025.4.25",
  "npm:mcp-obsidian@1.0.0",
  "npm:@cyanheads/git-mcp-server@2.15.3",
  "npm:@modelcontextprotocol/conformance@0.2.0-alpha.12",
  "npm:mcporter@0.12.3",
  "npm:pyright@1.1.414",
];

/**
 * Fetches these programs before the tests: inside them, servers start with an environment that may
 * lack what this machine needs to reach the registry.
 */
async function cachePrograms(): Promise<void> {
  for (const programs of [PROGRAMS, INSPECTOR]) {
    const { success } = await new Deno.Command(Deno.execPath(), {
      args: ["cache", "--quiet", "--no-lock", "--no-config", ...programs],
      stdout: "inherit",
      stderr: "inherit",
    }).output();
    if (!success) {
      throw new EnvironmentNotReadyError("Cannot fetch what tests run", "Connect first");
    }
  }
}

/**
 * Fetches the agents and the Python servers while other tests run, which is done by loading what the
 * tests use. What cannot be fetched is what these tests report.
 */
async function fetchAgents(): Promise<void> {
  await Promise.allSettled([import("./support/agents.ts"), pythonServers()]);
}

async function main(): Promise<number> {
  const interrupt = new AbortController();
  const abort = () => interrupt.abort(new DOMException("Interrupted", "AbortError"));
  Deno.addSignalListener("SIGINT", abort);
  try {
    const options = {
      yes: Deno.env.get("CI") !== undefined, // on a CI machine, sudo is there to be used
      onProgress: (line: string) => console.error(line),
      signal: interrupt.signal,
    };
    const why = await whyCode(fileURLToPath(import.meta.url));
    if (why !== undefined) {
      const fix = "Remove its .ipybox, and run ipybox in other folders";
      throw new EnvironmentNotReadyError(`Tests cannot run in a workspace: ${why}`, fix);
    }
    const recipe = await testRecipe();
    const [python, , isTyped] = await allDone([
      setUp({ ...options, recipe }).then(async ({ python }) => {
        await installChromium(options); // by the package manager, which setUp() may use, too
        return python;
      }),
      cachePrograms(),
      checkTypes(Deno.args),
    ]);
    if (!isTyped) return 1;
    const all = splitArgs(Deno.args).paths === ALL;
    const [summary] = await allDone([
      runTests(Deno.args, { python: python.executable, interrupt: interrupt.signal }),
      ...(all ? [fetchAgents()] : []),
    ]);
    for (const { name, reason } of summary.skipped) {
      console.log(
        `skipped: ${name}: ${reason ?? "it does not say why, which counts as a failure"}`,
      );
    }
    console.log(closingLine(summary));
    return summary.failed === 0 ? 0 : 1;
  } catch (error) {
    if (interrupt.signal.aborted) return 130;
    if (!(error instanceof EnvironmentNotReadyError)) throw error;
    console.error(`${error.message}\nTo fix it: ${error.fix}`);
    return 3;
  } finally {
    Deno.removeSignalListener("SIGINT", abort);
  }
}

if (import.meta.main) Deno.exitCode = await main();
