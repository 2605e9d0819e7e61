/**
 * Asks Python interpreters for their version, folders and packages.
 *
 * @module
 */
import { z } from "zod";
import { EnvironmentNotReadyError } from "../base/errors.ts";
import { findPrograms, programOf } from "../process/program.ts";
import { confinedPythonArgs, pythonArgs } from "../process/python_args.ts";
import { type ProgramEnd, runProgram } from "../process/run_program.ts";
import { parsedJson } from "../json/plain.ts";
import type { WorkspacePython } from "../sandbox/workspace_python.ts";

/** The oldest version of Python that runs kernels. */
const MINIMUM_PYTHON: readonly [number, number] = [3, 10];

const text = z.string().min(1);
const texts = z.record(z.string(), z.string());
const interpreterSchema = z.object({
  /** The interpreter's absolute path, never a shim's. */
  executable: text,
  /** The directory of its environment (`sys.prefix`). */
  prefix: text,
  /** The directory of the Python it is based on (`sys.base_prefix`). */
  basePrefix: text,
  /** Its version, such as `"3.11.7"`. */
  version: z.string().regex(/^\d{1,4}(\.\d{1,4}){2}$/),
  /** Whether it can make virtual environments with pip, which Debian packages separately. */
  makesEnvironments: z.boolean(),
  /** Whether pip may install packages into it: it has pip, and no other program manages it. */
  hasPip: z.boolean().optional(),
  /** The versions of the packages whose modules could be imported, by package name. */
  packages: texts,
  /** Why modules could not be imported, by package name. */
  missing: texts,
  /** When the interpreter and the folders that it imports from were changed, in milliseconds, by path. */
  changed: z.record(z.string(), z.number()).optional(),
  /** Whether it imports from a workspace, which only {@linkcode pythonArgs} prevents. */
  importsWorkspace: z.boolean().optional(),
});

/** The result of {@linkcode inspectInterpreter}. */
export type Interpreter = Readonly<z.infer<typeof interpreterSchema>>;

// Imports the modules instead of only looking for them: a package that was built for another Python or
// is half removed can be found, but does not work. Their output must not mix with the answer.
const INSPECT = `
import importlib, importlib.util, json, os, sys, sysconfig
out = os.fdopen(os.dup(1), "w"); os.dup2(2, 1)
packages, missing = {}, {}
managed_elsewhere = sys.prefix == sys.base_prefix and os.path.exists(
    os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED"))
sources = [sys.executable, os.path.join(sys.prefix, "pyvenv.cfg"), *sys.path]
changed = {path: os.stat(path).st_mtime_ns // 10**6 for path in sources if os.path.exists(path)}
for argument in sys.argv[1:]:
    module, _, package = argument.partition("=")
    try:
        importlib.import_module(module)
        from importlib.metadata import PackageNotFoundError, version
        try:
            packages[package] = version(package)
        except PackageNotFoundError:
            packages[package] = "unknown"
    except BaseException as error:
        missing[package] = f"{type(error).__name__}: {error}"
json.dump({
    "executable": sys.executable, "prefix": sys.prefix,
    "basePrefix": getattr(sys, "base_prefix", sys.prefix),
    "version": ".".join(map(str, sys.version_info[:3])),
    "makesEnvironments": all(map(importlib.util.find_spec, ("venv", "ensurepip"))),
    "hasPip": bool(importlib.util.find_spec("pip")) and not managed_elsewhere,
    "packages": packages, "missing": missing, "changed": changed,
    "importsWorkspace": imports_workspace,
}, out)
out.close()
`;

/** Importing takes 2 s from a cold disk; an interpreter that takes longer than this hangs. */
const TIMEOUT_MS = 60_000;

/** Starts a Python interpreter and asks for its version, folders and the packages it can import. */
export async function inspectInterpreter(
  command: string,
  modules: Readonly<Record<string, string>> = {},
  inside?: WorkspacePython,
): Promise<Interpreter> {
  const names = Object.entries(modules).map(([module, name]) => `${module}=${name}`);
  // -I, because kernels ignore the current folder, PYTHONPATH and the user's site-packages, too.
  const { stdout, stderr, code } = inside === undefined
    ? await output(command, [...pythonArgs(INSPECT), ...names])
    : await inside.run(
      [...confinedPythonArgs(INSPECT), ...names],
      AbortSignal.timeout(TIMEOUT_MS),
    );
  const answer = parseInterpreter(stdout);
  if (answer !== undefined && inside !== undefined) {
    const asked = Object.values(modules);
    const missing = Object.entries(answer.missing)
      .filter(([name]) => asked.includes(name))
      .map(([name, reason]) => [name, reason.split("\n", 1)[0] ?? ""]);
    return { ...answer, executable: inside.executable, missing: Object.fromEntries(missing) };
  }
  if (answer !== undefined) return answer;
  const lastLine = stderr.trim().split("\n").at(-1) ?? "";
  throw notPython(command, lastLine === "" ? `it exited with code ${code}` : lastLine);
}

/** Whether a version of Python is new enough for kernels. */
export function isNewEnough(version: string): boolean {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const [leastMajor, leastMinor] = MINIMUM_PYTHON;
  return major > leastMajor || (major === leastMajor && minor >= leastMinor);
}

/**
 * Finds the first interpreter on the `PATH` that can make virtual environments. Calls `onBroken`
 * with a message about each earlier one that does not work.
 */
export async function findBaseInterpreter(
  needsVenv: boolean,
  onBroken: (line: string) => void = () => {},
): Promise<Interpreter | undefined> {
  for (const name of ["python3", "python3.13", "python3.12", "python3.11", "python3.10"]) {
    for await (const program of findPrograms(name)) {
      const interpreter = await inspectInterpreter(program).catch((error: unknown) => {
        if (!(error instanceof EnvironmentNotReadyError)) throw error;
        onBroken(error.message);
        return undefined; // the next one may work
      });
      if (interpreter === undefined || !isNewEnough(interpreter.version)) continue;
      if (interpreter.importsWorkspace) continue; // uv would let it
      if (!needsVenv || interpreter.makesEnvironments) return interpreter;
    }
  }
  return undefined;
}

/** Parses an interpreter's answer, fresh or from a file; `undefined` for anything else. */
export function parseInterpreter(text: string): Interpreter | undefined {
  return interpreterSchema.safeParse(parsedJson(text)).data;
}

async function output(command: string, args: readonly string[]): Promise<ProgramEnd> {
  try {
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    return await runProgram(await programOf(command), { args, signal });
  } catch (cause) {
    if (cause instanceof Deno.errors.NotCapable) throw cause; // it names the flag that is missing
    throw notPython(command, await reasonOf(cause, command), cause);
  }
}

async function reasonOf(cause: unknown, command: string): Promise<string> {
  const isFolder = await Deno.stat(command).then((info) => info.isDirectory, () => false);
  if (isFolder) return `it is a folder; did you mean ${command}/bin/python?`;
  return cause instanceof Deno.errors.NotFound ? "no such command" : String(cause);
}

function notPython(command: string, reason: string, cause?: unknown): EnvironmentNotReadyError {
  return new EnvironmentNotReadyError(
    `Cannot use "${command}" as Python: ${reason}`,
    "Specify the path of Python 3.10 or newer, or none to use the managed environment",
    { cause },
  );
}
