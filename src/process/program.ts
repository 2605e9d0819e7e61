import { delimiter, isAbsolute, join, resolve } from "node:path";
import { hostEnv, isGranted, mayRead } from "../base/permission.ts";
import { PathTrust } from "./trusted_path.ts";

declare const isProgram: unique symbol;

/** The absolute path of a program that the host may start. Only this module makes one. */
export type ProgramPath = string & { readonly [isProgram]: true };

/** Where a program is looked for. */
export interface ProgramSearch {
  /**
   * The search path.
   *
   * @default {"$PATH"}
   */
  readonly path?: string;
  /** Absolute folders that executed code can write to, besides all workspaces. */
  readonly untrusted?: readonly string[];
}

/** Where programs are where `PATH` is not set, or may not be read. */
const DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin";

/** The host's own search path. */
export function hostPath(): string {
  return hostEnv("PATH") ?? DEFAULT_PATH;
}

/** The program that runs this one. */
export function ownProgram(): ProgramPath {
  return asProgram(Deno.execPath());
}

/**
 * Deno: the one that runs this program, unless that is compiled, or may only run what is called `deno`.
 */
export async function denoProgram(search: ProgramSearch = {}): Promise<ProgramPath> {
  const own = ownProgram();
  if (!Deno.build.standalone && isGranted({ name: "run", command: own })) return own;
  return await requireProgram("deno", search);
}

/**
 * A program that somebody who may decide on it has named by its path: the user, or ipybox itself.
 */
export function namedProgram(path: string, folder: string = "."): ProgramPath {
  if (!path.includes("/")) throw new TypeError(`"${path}" is a program name, not a path`);
  return asProgram(isAbsolute(path) ? path : resolve(folder, path));
}

/**
 * Looks for a program where only this user and the system can put one: neither in a workspace, nor in
 * a `node_modules/.bin`, nor in a folder that other users can write to. No link on the way to it leads
 * through such a folder.
 *
 * Where Deno's permissions do not let one look, it is the one that they allow to be run.
 */
export async function findProgram(
  name: string,
  search: ProgramSearch = {},
): Promise<ProgramPath | undefined> {
  for await (const program of findPrograms(name, search)) return program;
  return undefined;
}

/** Like {@linkcode findProgram}, for all programs of that name. */
export async function* findPrograms(
  name: string,
  search: ProgramSearch = {},
): AsyncGenerator<ProgramPath> {
  for await (const { file, problem } of candidates(name, search)) {
    if (problem === undefined) yield asProgram(file);
  }
}

/** Like {@linkcode findProgram}, where it has to be there. */
export async function requireProgram(
  name: string,
  search: ProgramSearch = {},
): Promise<ProgramPath> {
  const problems: string[] = [];
  for await (const { file, problem } of candidates(name, search)) {
    if (problem === undefined) return asProgram(file);
    problems.push(`${file} is not run: ${problem}`);
  }
  if (!isGranted({ name: "run", command: name })) {
    throw new Deno.errors.NotCapable(
      `Requires run access to "${name}", run again with the --allow-run flag`,
    );
  }
  if (!isGranted({ name: "env", variable: "PATH" })) {
    problems.push("to look for it elsewhere, allow reading the variable PATH");
  }
  const { path = hostPath() } = search;
  const unseen = path.split(delimiter).filter((folder) => isAbsolute(folder) && !mayRead(folder));
  if (unseen.length > 0 && isGranted({ name: "run" })) {
    problems.push(`to look for it, allow reading ${unseen.join(", ")}`);
  }
  throw new Deno.errors.NotFound([`${name} is not on the PATH`, ...problems].join("; "));
}

/** The program that a user's command means: the one at its path, or the one of its name. */
export async function programOf(
  command: string,
  search: ProgramSearch & { readonly folder?: string } = {},
): Promise<ProgramPath> {
  return command.includes("/")
    ? namedProgram(command, search.folder)
    : await requireProgram(command, search);
}

/** A file of the name that is looked for, and why it is left alone. */
interface Candidate {
  readonly file: string;
  readonly problem: string | undefined;
}

async function* candidates(
  name: string,
  { path = hostPath(), untrusted = [] }: ProgramSearch,
): AsyncGenerator<Candidate> {
  if (name === "" || name.includes("/")) throw new TypeError(`"${name}" is not a program name`);
  const trust = await PathTrust.create(untrusted);
  for (const folder of new Set(path.split(delimiter))) {
    const file = join(resolve(folder), name);
    if (!await isThere(file)) continue;
    yield { file, problem: await trust.whyNotSearched(folder) ?? await trust.whyShared(file) };
  }
}

/** Whether there is a program at a path. Where one may not look, a permission to run it says so. */
async function isThere(file: string): Promise<boolean> {
  if (!mayRead(file)) {
    return !isGranted({ name: "run" }) && isGranted({ name: "run", command: file });
  }
  try {
    const { isFile, mode } = await Deno.stat(file);
    return isFile && (mode === null || (mode & 0o111) !== 0);
  } catch {
    return false; // not there, or not to be reached: both mean that it cannot be run
  }
}

function asProgram(path: string): ProgramPath {
  return path as ProgramPath;
}
