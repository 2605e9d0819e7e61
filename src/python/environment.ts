/**
 * The Python that runs kernels: the user's own, or the managed one.
 *
 * @module
 */
import { EnvironmentNotReadyError } from "../errors.ts";
import { type Logger, silentLogger } from "../log.ts";
import { inspectInterpreter, isNewEnough } from "./interpreter.ts";
import {
  KERNEL_MODULES,
  kernelRecipe,
  managedDirectory,
  type PythonEnvironment,
  readManaged,
  readManagedAt,
  toEnvironment,
} from "./managed.ts";

export { type BuildOptions, buildPythonEnvironment } from "./build.ts";
export type { EnvironmentRecipe, PythonEnvironment } from "./managed.ts";

/** Options of {@linkcode findPython}. */
export interface FindPythonOptions {
  /**
   * The path of a Python interpreter that has what kernels need. Then no environment variable is
   * read.
   *
   * @default {the environment variable IPYBOX_PYTHON, else the managed environment}
   */
  python?: string | undefined;
  /**
   * The directory of the managed environments.
   *
   * @default {"$XDG_CACHE_HOME/ipybox/python"}
   */
  cacheDir?: string | undefined;
  /** Told which Python was taken. */
  log?: Logger | undefined;
}

/**
 * Finds the Python that runs kernels.
 *
 * The user's own Python is started and must import what kernels need; the managed environment was
 * checked when it was built, so finding it takes about a millisecond.
 *
 * Needs `--allow-env=IPYBOX_PYTHON,XDG_CACHE_HOME,HOME` and read access to the managed environment,
 * or `--allow-run` for the Python that is named.
 *
 * @param options Which Python; by default the one that `IPYBOX_PYTHON` names, else the managed one.
 * @returns The environment.
 * @throws {EnvironmentNotReadyError} If the named Python lacks something, or there is no managed
 * environment yet. Its `fix` is the command that helps.
 *
 * @example
 * ```ts no-assert
 * import { findPython } from "@ipybox/ipybox";
 *
 * const python = await findPython();
 * console.error(python.executable, python.version);
 * ```
 */
export async function findPython(options: FindPythonOptions = {}): Promise<PythonEnvironment> {
  const { log = silentLogger } = options;
  const named = options.python ?? (Deno.env.get("IPYBOX_PYTHON") || undefined);
  if (named !== undefined) {
    const environment = await managedAt(named) ?? await checkNamed(named);
    log.debug(`Python ${environment.version} at ${environment.executable}, as named`);
    return environment;
  }
  const environment = await readManaged(kernelRecipe(), options.cacheDir ?? managedDirectory());
  if (environment === undefined) {
    throw new EnvironmentNotReadyError(
      "The managed Python environment has not been built yet",
      "ipybox setup",
    );
  }
  log.debug(`Python ${environment.version} at ${environment.executable}, managed`);
  return environment;
}

/** A managed environment, when it is its interpreter that was named: that was checked. */
async function managedAt(named: string): Promise<PythonEnvironment | undefined> {
  try {
    return await readManagedAt(named, Object.values(KERNEL_MODULES));
  } catch (error) {
    if (error instanceof Deno.errors.NotCapable) return undefined; // then it is checked by running
    throw error;
  }
}

async function checkNamed(named: string): Promise<PythonEnvironment> {
  const interpreter = await inspectInterpreter(named, KERNEL_MODULES);
  const name = `Python ${interpreter.version} at ${interpreter.executable}`;
  if (!isNewEnough(interpreter.version)) {
    throw new EnvironmentNotReadyError(
      `${name} is too old: kernels need 3.10 or newer`,
      "Name a newer Python, or none to use the managed environment",
    );
  }
  const missing: Record<string, string> = { ...interpreter.missing };
  const { pydantic } = interpreter.packages;
  if (pydantic?.startsWith("1.")) missing.pydantic = `version ${pydantic} is older than 2`;
  const lines = Object.entries(missing).map(([item, reason]) => `\n  ${item}: ${reason}`);
  if (lines.length > 0) {
    throw new EnvironmentNotReadyError(
      `${name} lacks what kernels need:${lines.join("")}`,
      `${interpreter.executable} -m pip install -U ${Object.keys(missing).join(" ")}\n` +
        "or name no Python and run: ipybox setup",
    );
  }
  return toEnvironment(interpreter, false);
}
