// deno-lint-ignore-file no-console -- a script talks to whoever started it
/**
 * `deno task test [PATH…] [OPTION…]`: sets up what the tests need, runs them, and closes with the
 * line `N passed, N failed, N skipped`. Options are those of `deno test`, such as `--filter=NAME`.
 *
 * @module
 */
import { setUp } from "../src/commands/setup.ts";
import { EnvironmentNotReadyError } from "../src/base/errors.ts";
import { allDone } from "../src/base/signals.ts";
import { type EnvironmentRecipe, KERNEL_MODULES } from "../src/python/managed.ts";
import { installChromium } from "./support/browser.ts";
import { INSPECTOR } from "./support/command_line_clients.ts";
import { pythonServers } from "./support/python_servers.ts";
import { closingLine, summarize, type TestSummary } from "./support/test_summary.ts";

const root = new URL("../", import.meta.url);

/** All that kernels need, and what tests use in code actions. */
async function testRecipe(): Promise<EnvironmentRecipe> {
  return {
    requirements: await Deno.readTextFile(new URL("tests/python/requirements.txt", root)),
    modules: { ...KERNEL_MODULES, matplotlib: "matplotlib" },
  };
}

async function runTests(args: readonly string[], python: string): Promise<TestSummary> {
  const directory = await Deno.makeTempDir({ prefix: "ipybox-tests-" });
  try {
    const report = `${directory}/junit.xml`;
    const child = new Deno.Command(Deno.execPath(), {
      args: ["test", "-A", "--parallel", `--junit-path=${report}`, ...withPaths(args)],
      cwd: root,
      // The registrations, logins and workspaces of whoever runs the tests stay as they are.
      env: {
        IPYBOX_PYTHON: python,
        // Tests wait for other programs half of their time.
        DENO_JOBS: Deno.env.get("DENO_JOBS") ?? `${navigator.hardwareConcurrency * 2}`,
        XDG_STATE_HOME: `${directory}/state`,
        XDG_DATA_HOME: `${directory}/data`,
      },
      stdin: "null",
      stdout: "piped",
      signal: AbortSignal.timeout(LONGEST_MS),
    }).spawn();
    const output = await passOn(child.stdout);
    const { success } = await child.status;
    const junit = await Deno.readTextFile(report).catch(() => ""); // there is none when it crashed
    return summarize(output, junit, success);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

function withPaths(args: readonly string[]): readonly string[] {
  const named = args.some((arg, i) => !arg.startsWith("-") && args[i - 1] !== "--filter");
  return named ? args : [...args, ...ALL];
}

/**
 * Checks the types of the tests before they run, while the rest is set up. The run finds that in
 * Deno's cache, or reports the errors.
 */
async function checkTypes(args: readonly string[]): Promise<void> {
  await new Deno.Command(Deno.execPath(), {
    args: ["test", "--no-run", "--quiet", ...withPaths(args)],
    cwd: root,
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).output();
}

/** A run that takes longer hangs; what it printed last names the test. */
const LONGEST_MS = 75 * 60_000;

/**
 * Deno runs files that are named before those of folders, and these in alphabetical order. What takes
 * longest is named, or one processor would be left with it in the end.
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

/** Copies a stream to stdout as it comes, and gives its text. */
async function passOn(stream: ReadableStream<Uint8Array>): Promise<string> {
  const [shown, kept] = stream.tee();
  const [, text] = await Promise.all([
    shown.pipeTo(Deno.stdout.writable, { preventClose: true }),
    new Response(kept).text(),
  ]);
  return text;
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
    const recipe = await testRecipe();
    const [python] = await allDone([
      setUp({ ...options, recipe }).then(async ({ python }) => {
        await installChromium(options); // by the package manager, which setUp() may use, too
        return python;
      }),
      cachePrograms(),
      checkTypes(Deno.args),
    ]);
    const all = withPaths(Deno.args) !== Deno.args;
    const [summary] = await allDone([
      runTests(Deno.args, python.executable),
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
