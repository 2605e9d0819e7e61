/**
 * The Python that runs kernels: the user's own, or the managed one.
 *
 * @module
 */
import { dirname, join, resolve } from "node:path";
import { EnvironmentNotReadyError } from "../base/errors.ts";
import { type Logger, silentLogger } from "../base/log.ts";
import { stage } from "../base/stages.ts";
import { ifPresent } from "../files/safe.ts";
import { workspacePython } from "../sandbox/workspace_python.ts";
import { inspectInterpreter, type Interpreter, isNewEnough } from "./interpreter.ts";
import {
  KERNEL_MODULES,
  MINIMUM_PYDANTIC,
  type PythonEnvironment,
  readManaged,
  readManagedAt,
  toEnvironment,
} from "./managed.ts";
import { forgetNamed, recallNamed, rememberNamed } from "./remembered_pythons.ts";

export { type BuildOptions, buildPythonEnvironment, findBasePython } from "./build.ts";
export type { EnvironmentRecipe, PythonEnvironment } from "./managed.ts";

/** The type checker ty beside a Python; `undefined` if it is not installed. */
export async function typeCheckerOf(python: string): Promise<string | undefined> {
  const path = join(dirname(python), "ty");
  return (await ifPresent(Deno.lstat(path)))?.isFile ? path : undefined;
}

/** The packages that kernels need, in the order of a report. */
export const KERNEL_PACKAGES: readonly string[] = Object.values(KERNEL_MODULES);

/** Options of {@linkcode findPython}. */
export interface FindPythonOptions {
  /**
   * The path of a Python interpreter with the packages that kernels need. Overrides the environment
   * variable.
   *
   * @default {the environment variable IPYBOX_PYTHON, else the managed environment}
   */
  python?: string;
  /** The workspace, where executed code could have placed its own Python. */
  workspace?: string;
  /**
   * The directory of the managed environments.
   *
   * @default {"$XDG_CACHE_HOME/ipybox/python"}
   */
  cacheDir?: string;
  /** Receives the Python that was chosen. */
  log?: Logger;
}

/**
 * Finds the Python that runs kernels.
 *
 * The user's own Python is started and must import what kernels need, which takes a second or two; if
 * it does, that is remembered in `cacheDir` until the interpreter or a folder of its packages changes.
 * The managed environment was checked when it was built.
 *
 * Needs `--allow-env=IPYBOX_PYTHON,XDG_CACHE_HOME,HOME` and read access to the managed environment,
 * or `--allow-run` for the Python that is named.
 *
 * @param options Which Python; by default the one that `IPYBOX_PYTHON` names, else the managed one.
 * @returns The environment.
 * @throws {EnvironmentNotReadyError} If the named Python lacks something, or there is no managed
 * environment yet. Its `fix` is the command that helps.
 * @throws {ConfigError} If code of another workspace could have put the named Python there.
 *
 * @example
 * ```ts no-assert
 * import { findPython } from "@ipybox/ipybox/kernel";
 *
 * const python = await findPython();
 * console.error(python.executable, python.version);
 * ```
 */
export async function findPython(options: FindPythonOptions = {}): Promise<PythonEnvironment> {
  using _stage = stage("find Python");
  const { log = silentLogger } = options;
  const named = options.python ?? (Deno.env.get("IPYBOX_PYTHON") || undefined);
  if (named !== undefined) {
    const environment = await managedAt(named) ?? requireFit(await recall(named, options));
    log.debug(`Python ${environment.version} at ${environment.executable}, as configured`);
    return environment;
  }
  const environment = await readManaged(undefined, options.cacheDir);
  if (environment === undefined) {
    throw new EnvironmentNotReadyError(
      "The managed Python environment has not been built yet",
      "ipybox setup",
    );
  }
  log.debug(`Python ${environment.version} at ${environment.executable}, managed`);
  return environment;
}

/** The managed environment of a named interpreter, which needs no second check. */
async function managedAt(named: string): Promise<PythonEnvironment | undefined> {
  try {
    return await readManagedAt(named, KERNEL_PACKAGES);
  } catch (error) {
    if (error instanceof Deno.errors.NotCapable) return undefined; // then it is checked by running
    throw error;
  }
}

/** Tries the user's own Python after a failed start: the damage may not show in its folders. */
export async function retryPython(
  { executable, managed }: PythonEnvironment,
  options: FindPythonOptions,
): Promise<void> {
  if (!managed) requireFit(await tryNamed(executable, options));
}

/** The recorded facts about the user's own Python; if they may be out of date, it is tried. */
async function recall(named: string, options: FindPythonOptions): Promise<PythonCheck> {
  const known = named.includes("/")
    ? await recallNamed(resolve(named), options.cacheDir)
    : undefined;
  return known === undefined ? await tryNamed(named, options) : judge(known, false);
}

/** Tries the user's own Python, and remembers it if kernels can use it. */
async function tryNamed(
  named: string,
  { cacheDir, workspace, log = silentLogger }: FindPythonOptions,
): Promise<PythonCheck> {
  const inside = await workspacePython(named, workspace);
  const interpreter = await inspectInterpreter(named, KERNEL_MODULES, inside);
  const check = judge(interpreter, false);
  const { problem, missing } = check;
  try {
    if (problem === undefined && Object.keys(missing).length === 0) {
      await rememberNamed(interpreter, cacheDir);
    } else {
      await forgetNamed(interpreter.executable, cacheDir);
    }
  } catch (error) {
    log.debug(`Python will be tried again at each start: ${error}`);
  }
  return check;
}

/** The Python that was tried, or an error with all that it lacks. */
function requireFit({ environment, missing, problem, fix }: PythonCheck): PythonEnvironment {
  const name = `Python ${environment.version} at ${environment.executable}`;
  if (problem !== undefined) throw new EnvironmentNotReadyError(`${name} ${problem}`, fix);
  const lines = Object.entries(missing).map(([item, reason]) => `\n  ${item}: ${reason}`);
  if (lines.length === 0) return environment;
  throw new EnvironmentNotReadyError(
    `${name} lacks packages that kernels need:${lines.join("")}`,
    fix,
  );
}

/** The result of {@linkcode checkPython}. */
export interface PythonCheck {
  /** The Python that kernels would use. */
  readonly environment: PythonEnvironment;
  /** The problem with the Python itself, if any. */
  readonly problem: string | undefined;
  /** Why packages cannot be imported, by name. */
  readonly missing: Readonly<Record<string, string>>;
  /** The command that fixes the problem. */
  readonly fix: string;
}

/** Finds the Python that runs kernels and tries it, even the managed one. */
export async function checkPython(options: FindPythonOptions = {}): Promise<PythonCheck> {
  const named = options.python ?? (Deno.env.get("IPYBOX_PYTHON") || undefined);
  if (named !== undefined) {
    if (await managedAt(named) === undefined) return await tryNamed(named, options);
  }
  const { executable } = await findPython(options);
  return judge(await inspectInterpreter(executable, KERNEL_MODULES), true);
}

/** Judges an inspected interpreter by its version and packages. */
function judge(interpreter: Interpreter, managed: boolean): PythonCheck {
  const environment = toEnvironment(interpreter, managed);
  const { packages: { pydantic, ...packages } } = interpreter;
  const missing: Record<string, string> = { ...interpreter.missing };
  if (pydantic !== undefined && isOld(pydantic)) {
    missing.pydantic = `version ${pydantic} is older than ${MINIMUM_PYDANTIC.join(".")}`;
  }
  const problem = isNewEnough(interpreter.version)
    ? undefined
    : "is too old: kernels need 3.10 or newer";
  return {
    environment: "pydantic" in missing ? { ...environment, packages } : environment,
    problem,
    missing,
    fix: managed
      ? "ipybox setup --rebuild"
      : problem === undefined
      ? howToAdd(Object.keys(missing), interpreter) +
        "\nor configure no Python and run: ipybox setup"
      : "Configure a newer Python, or none and run: ipybox setup",
  };
}

/** The command that installs packages for a Python, or in a new environment if it takes none. */
function howToAdd(names: readonly string[], { executable, hasPip }: Interpreter): string {
  const install = `-m pip install -U ${names.join(" ")}`;
  if (hasPip) return `${executable} ${install}`;
  const all = `-m pip install ${KERNEL_PACKAGES.join(" ")}`;
  return `${executable} -m venv ENV && ENV/bin/python ${all}, then --python ENV/bin/python`;
}

function isOld(version: string): boolean {
  const [, major, minor] = /^(\d+)\.(\d+)/.exec(version) ?? [];
  if (major === undefined) return false; // it does not say, so it is tried
  const [least, leastMinor] = MINIMUM_PYDANTIC;
  return Number(major) < least || (Number(major) === least && Number(minor) < leastMinor);
}
