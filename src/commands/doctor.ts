import { unicodeWidth } from "@std/cli";
import { resolve } from "node:path";
import { ConfigError, EnvironmentNotReadyError } from "../base/errors.ts";
import { silentLogger } from "../base/log.ts";
import { startOwn } from "../executor/code_executor.ts";
import { HeldFolder } from "../files/private_folder.ts";
import { wantedSandbox } from "../mcp/launch.ts";
import {
  fillVariables,
  type ServerParams,
  type VariableLookup,
  variableLookup,
} from "../mcp/params.ts";
import { programOf } from "../process/program.ts";
import {
  checkPython,
  KERNEL_PACKAGES,
  type PythonCheck,
  typeCheckerOf,
} from "../python/environment.ts";
import type { PythonEnvironment } from "../python/managed.ts";
import { listPackages, PackageFolder } from "../python/packages.ts";
import { presentKinds } from "../sandbox/devices.ts";
import { checkSandbox, checkSessionLimits, type Prerequisite } from "../sandbox/prerequisites.ts";
import { checkSrt } from "../sandbox/srt.ts";
import { ServerRegistry } from "../servers/registry.ts";
import { type Command, type CommandIo, EXIT, type ParsedArgs } from "./command.ts";
import { workspaceOf } from "./shared.ts";
import { printable } from "./terminal/columns.ts";

export const command: Command = {
  usage: "[OPTIONS]",
  options: {
    json: { help: "Print the report as JSON" },
    python: { value: "PATH", help: "Check this Python instead of the managed environment" },
    workspace: { value: "DIR", help: "Check what this workspace's servers need (default: .)" },
  },
  notes: [
    "Starts a kernel in the sandbox, and looks for the programs and variables that",
    "registered servers need, without starting the servers. In the --json report,",
    "`python` is the path of the Python that runs kernels.",
    "",
    "Exit codes: 0 if ipybox is ready, 3 if something is missing. Warnings, such as",
    "those about servers, do not change the exit code.",
    "",
    "To see where the time of a command goes, add --trace-startup to it.",
    "",
    "Example:",
    "",
    "  ipybox doctor --json",
  ].join("\n"),
  run,
};

async function run(parsed: ParsedArgs, io: CommandIo): Promise<number> {
  const workspace = await workspaceOf(parsed);
  const python = parsed.value("python");
  const machine = await checkPrerequisites({ python });
  const isComplete = machine.every(({ state }) => state !== "missing");
  const prerequisites = [
    ...machine,
    ...(isComplete ? [await checkKernel({ python, signal: io.signal })] : []),
    ...await checkServers(workspace),
  ];
  const ready = prerequisites.every(({ state }) => state !== "missing");
  const path = machine.find(({ name }) => name === "Python")?.path ?? null;
  io.out(
    parsed.has("json")
      ? JSON.stringify({ ready, python: path, prerequisites }, null, 2) + "\n"
      : printable(report(prerequisites)),
  );
  return ready ? EXIT.ok : EXIT.notReady;
}

export function report(prerequisites: readonly Prerequisite[]): string {
  const nameWidth = Math.max(...prerequisites.map(({ name }) => unicodeWidth(name)));
  const versionWidth = Math.max(...prerequisites.map(({ version }) => version?.length ?? 1));
  const indent = " ".repeat("missing  ".length);
  const said = new Set<string | null>();
  const lines = prerequisites.flatMap(({ name, state, version, detail, fix }) => {
    const known = said.has(fix);
    said.add(fix);
    const padding = " ".repeat(nameWidth - unicodeWidth(name));
    const [first = "", ...more] = detail.split("\n");
    return [
      `${state.padEnd(7)}  ${name}${padding}  ${(version ?? "-").padEnd(versionWidth)}  ${first}`,
      ...more.map((line) => indent + line),
      ...(known ? "" : fix ?? "").split("\n").filter((line) => line !== "")
        .map((line, index) => `${indent}${index === 0 ? "fix: " : "     "}${line}`),
    ];
  });
  return [...lines, "", verdict(prerequisites), ""].join("\n");
}

function verdict(prerequisites: readonly Prerequisite[]): string {
  const missing = prerequisites.filter(({ state }) => state === "missing").length;
  if (missing === 0) return "ipybox is ready";
  const things = missing === 1 ? "1 thing is" : `${missing} things are`;
  return `ipybox is not ready: ${things} missing. Run \`ipybox setup\` to install what it can`;
}

// The prerequisites of a machine, checked by trying them.

/** The oldest Deno that ipybox is tested with. */
const MINIMUM_DENO = "2.9.0";

/** Checks all prerequisites. Takes about two seconds, because the Python packages are imported. */
async function checkPrerequisites(
  options: { python?: string | undefined } = {},
): Promise<Prerequisite[]> {
  const [python, srt, sandbox, limits, devices] = await Promise.all([
    pythonRows(options),
    checkSrt(),
    checkSandbox(),
    checkSessionLimits(),
    presentKinds(),
  ]);
  const rows = devices.map((name) =>
    present(`device ${name}`, `code can use it with --device ${name}`)
  );
  return [denoRow(), ...python, srt, ...sandbox, limits, ...rows];
}

function present(name: string, detail: string, version: string | null = null): Prerequisite {
  return { name, state: "ok", version, detail, fix: null };
}

function lacking(
  name: string,
  detail: string,
  { fix = null, state = "missing" }: Partial<Pick<Prerequisite, "fix" | "state">>,
): Prerequisite {
  return { name, state, version: null, detail, fix };
}

/** Starts a kernel in the sandbox, which tests itself, and runs code in it. Takes a few seconds. */
async function checkKernel(
  { python, signal }: { python: string | undefined; signal: AbortSignal },
): Promise<Prerequisite> {
  const start = performance.now();
  try {
    await using folder = await HeldFolder.create();
    const workspace = `${folder.path}/workspace`;
    await Deno.mkdir(workspace);
    await using executor = await startOwn({
      spareKernel: false,
      workspace,
      python,
      packages: false,
      approval: "deny",
      log: silentLogger,
      signal,
    });
    await executor.execute("pass", { signal });
    const seconds = ((performance.now() - start) / 1000).toFixed(1);
    return present("kernel", `runs code in the sandbox (${seconds} s)`);
  } catch (error) {
    if (!(error instanceof Error) || signal.aborted) throw error;
    const fix = error instanceof EnvironmentNotReadyError ? error.fix : null;
    return lacking("kernel", error.message, { fix });
  }
}

function denoRow(): Prerequisite {
  const version = Deno.version.deno;
  const row = present("Deno", Deno.execPath(), version);
  if (version.localeCompare(MINIMUM_DENO, "en", { numeric: true }) >= 0) return row;
  const detail = `is older than ${MINIMUM_DENO}, the oldest that ipybox is tested with`;
  return { ...row, state: "warn", detail, fix: "deno upgrade" };
}

async function pythonRows(options: { python?: string | undefined }): Promise<Prerequisite[]> {
  let check: PythonCheck;
  try {
    check = await checkPython(options);
  } catch (error) {
    if (!(error instanceof EnvironmentNotReadyError)) throw error;
    return [
      lacking("Python", error.message, error),
      ...KERNEL_PACKAGES.map((name) => lacking(name, "requires the Python above", error)),
    ];
  }
  const { environment, problem, fix } = check;
  const { version, executable, managed, packages } = environment;
  const shown = `${executable} (${managed ? "managed" : "named"})`;
  const python = problem === undefined
    ? present("Python", shown, version)
    : { ...lacking("Python", problem, { fix }), version };
  const data = await dataRow(environment);
  return [
    { ...python, path: executable },
    ...Object.entries(packages).map(([name, version]) => present(name, "can be imported", version)),
    ...Object.entries(check.missing).map(([name, detail]) => lacking(name, detail, { fix })),
    await checker(executable, managed),
    ...data,
  ];
}

/** The packages that all workspaces share. Kernels work without them. */
async function dataRow(python: PythonEnvironment): Promise<Prerequisite[]> {
  if (!python.managed) return [];
  const found = await listPackages(await PackageFolder.common(python));
  const names = found.filter(({ requested }) => requested).map(({ name }) => name);
  const detail = names.length === 0
    ? "not installed: `ipybox setup --data` installs them for all workspaces"
    : names.join(", ");
  return [present("data packages", detail)];
}

/** The type checker. Without it, code runs unchecked. */
async function checker(python: string, managed: boolean): Promise<Prerequisite> {
  const path = await typeCheckerOf(python);
  if (path !== undefined) return present("ty", path);
  return lacking("ty", "not installed: tool calls in code are not checked before it runs", {
    state: "warn",
    fix: managed ? "ipybox setup --rebuild" : `${python} -m pip install ty`,
  });
}

/** Checks the programs and variables of a workspace's servers, without contacting them. */
async function checkServers(workspace: string): Promise<Prerequisite[]> {
  const registry = await ServerRegistry.open({ workspace });
  if (registry.names.length === 0) return [];
  const lookup = await variableLookup(workspace);
  return await Promise.all(
    registry.entries.map(([name, params]) => checkServer(name, params, { workspace, lookup })),
  );
}

async function checkServer(
  server: string,
  params: ServerParams,
  { workspace, lookup }: { readonly workspace: string; readonly lookup: VariableLookup },
): Promise<Prerequisite> {
  const name = `server ${server}`;
  try {
    const filled = fillVariables(server, params, lookup);
    if (!("command" in filled)) {
      return present(name, `${new URL(filled.url).origin} (not tried)`);
    }
    const { command } = wantedSandbox(server, filled);
    const program = await programOf(command, {
      path: filled.env?.PATH,
      untrusted: [workspace],
      folder: resolve(workspace, filled.cwd ?? "."),
    });
    await Deno.stat(program);
    return present(name, program);
  } catch (error) {
    const expected = error instanceof ConfigError || error instanceof TypeError ||
      error instanceof Deno.errors.NotFound;
    if (!expected) throw error;
    return lacking(name, error.message, { state: "warn" });
  }
}
