/**
 * The managed environments in the user's cache directory.
 *
 * ```
 * <cache>/ipybox/python/
 *   build.lock               locked by the process that builds, and released when it dies
 *   <key>.json               written last: the environment that is ready for these requirements
 *   <key>-py3.11-<random>/   a virtual environment, never moved and never built into again
 *   packages/                the packages that workspaces have installed, see packages.ts
 *   common/                  the packages that all workspaces share, see packages.ts
 * ```
 *
 * @module
 */
import { basename, join } from "node:path";
import { asset } from "../assets/mod.ts";
import { EnvironmentNotReadyError } from "../base/errors.ts";
import { ifPresent, replaceFile } from "../files/safe.ts";
import { cacheFolder } from "../files/user_folders.ts";
import { sha256 } from "../json/digest.ts";
import { type Interpreter, parseInterpreter } from "./interpreter.ts";

/** A Python that can run kernels. */
export interface PythonEnvironment {
  /** The interpreter's absolute path. */
  readonly executable: string;
  /** The directory of the environment (`sys.prefix`). */
  readonly prefix: string;
  /** The directory of the Python it is based on (`sys.base_prefix`); the same without one. */
  readonly basePrefix: string;
  /** The version of Python, such as `"3.11.7"`. */
  readonly version: string;
  /** The versions of the packages that kernels need, by name. */
  readonly packages: Readonly<Record<string, string>>;
  /** Whether ipybox built it and may change it. */
  readonly managed: boolean;
}

/** The contents of a managed environment. */
export interface EnvironmentRecipe {
  /** The text of a requirements file that pins every package with its hashes. */
  readonly requirements: string;
  /** The modules that must be importable: module → package name. */
  readonly modules: Readonly<Record<string, string>>;
}

/** The modules that kernels need: module → package name. */
export const KERNEL_MODULES: Readonly<Record<string, string>> = {
  kernel_gateway: "jupyter_kernel_gateway",
  ipykernel: "ipykernel",
  pydantic: "pydantic",
};

/** The oldest pydantic that supports the generated Python APIs. */
export const MINIMUM_PYDANTIC = [2, 11] as const;

/** The recipe of the environment that runs kernels. */
export function kernelRecipe(): EnvironmentRecipe {
  return { requirements: asset("environment/requirements.txt"), modules: KERNEL_MODULES };
}

/** The directory of all managed environments. */
export function managedDirectory(): string {
  Deno.env.get("XDG_CACHE_HOME") ?? Deno.env.get("HOME"); // an error names a missing permission
  const cache = cacheFolder();
  if (cache !== undefined) return join(cache, "python");
  throw new EnvironmentNotReadyError(
    "Cannot find the user's cache directory: neither HOME nor XDG_CACHE_HOME is set",
    "Set HOME, or choose a Python with --python or IPYBOX_PYTHON",
  );
}

/** The key of an environment in file names. */
export function environmentKey({ requirements }: EnvironmentRecipe): string {
  return sha256(requirements).slice(0, 16);
}

/** The managed environment of a recipe, if it is ready. Does not start Python. */
export async function readManaged(
  recipe: EnvironmentRecipe = kernelRecipe(),
  directory: string = managedDirectory(),
): Promise<PythonEnvironment | undefined> {
  const interpreter = await readReady(join(directory, `${environmentKey(recipe)}.json`));
  return interpreter === undefined ? undefined : toEnvironment(interpreter, true);
}

/** The managed environment with this interpreter, whatever its recipe. Does not start Python. */
export async function readManagedAt(
  executable: string,
  packages: readonly string[],
): Promise<PythonEnvironment | undefined> {
  const marker = /^(\/.*\/[0-9a-f]{16})-[^/]+\/bin\/python$/.exec(executable)?.[1];
  if (marker === undefined) return undefined;
  const interpreter = await readReady(`${marker}.json`);
  if (interpreter?.executable !== executable) return undefined;
  if (!packages.every((name) => name in interpreter.packages)) return undefined;
  return toEnvironment(interpreter, true);
}

/** Marks an environment as ready for a recipe. */
export async function writeMarker(
  recipe: EnvironmentRecipe,
  directory: string,
  interpreter: Interpreter,
): Promise<void> {
  await replaceMarker(join(directory, `${environmentKey(recipe)}.json`), interpreter);
}

/** Writes the facts about an interpreter, atomically. */
export async function replaceMarker(path: string, interpreter: Interpreter): Promise<void> {
  // All users may use an environment.
  await replaceFile(path, JSON.stringify(interpreter, null, 2) + "\n", 0o644);
}

/** An environment, or a marker or folder that is not in place yet: all that a build makes, and nothing else. */
const BUILT = /^(?:[0-9a-f]{16}(?:-py|\.json\.[^.]*\.tmp$)|\.[0-9a-f-]{36}\.tmp$)/;

/** The path of something that {@linkcode removeLeftovers} removes unless it gets another name. */
export function leftoverIn(directory: string): string {
  return join(directory, `.${crypto.randomUUID()}.tmp`);
}

/** Removes the leftovers of interrupted builds. Requires the build lock. */
export async function removeLeftovers(directory: string): Promise<void> {
  const ready = new Set<string>();
  const candidates: string[] = [];
  for await (const entry of Deno.readDir(directory)) {
    const path = join(directory, entry.name);
    if (BUILT.test(entry.name)) candidates.push(path);
    if (!entry.name.endsWith(".json")) continue;
    const interpreter = await readMarker(path);
    if (interpreter !== undefined) ready.add(basename(interpreter.prefix));
  }
  for (const path of candidates) {
    if (ready.has(basename(path))) continue;
    // An installer whose parent was killed may still write there; the next build removes the rest.
    await Deno.remove(path, { recursive: true }).catch(() => {});
  }
}

/** A usable interpreter, as callers see it. */
export function toEnvironment(interpreter: Interpreter, managed: boolean): PythonEnvironment {
  const { executable, prefix, basePrefix, version, packages } = interpreter;
  return { executable, prefix, basePrefix, version, packages, managed };
}

async function readReady(marker: string): Promise<Interpreter | undefined> {
  const interpreter = await readMarker(marker);
  if (interpreter === undefined) return undefined;
  // Follows the link to the base interpreter, which may have been upgraded or removed since.
  const base = await ifPresent(Deno.stat(interpreter.executable));
  return base === undefined ? undefined : interpreter;
}

/** Reads the facts about an interpreter. */
export async function readMarker(path: string): Promise<Interpreter | undefined> {
  const text = await ifPresent(Deno.readTextFile(path));
  return text === undefined ? undefined : parseInterpreter(text);
}
