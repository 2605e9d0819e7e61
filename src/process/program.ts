import { delimiter, isAbsolute, join, resolve } from "node:path";
import { hostEnv, isGranted, mayRead } from "../base/permission.ts";
import { whyCode, whyNotSearched } from "./trusted_path.ts";

declare const isProgram: unique symbol;

/** The absolute path of a program that the host may start. Only this module creates these. */
export type ProgramPath = string & { readonly [isProgram]: true };

/** Where to look for a program. */
export interface ProgramSearch {
  /**
   * The search path.
   *
   * @default {"$PATH"}
   */
  readonly path?: string;
  /** Absolute folders that executed code can write to, in addition to all workspaces. */
  readonly untrusted?: readonly string[];
}

/** The search path if `PATH` is not set or cannot be read. */
const DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin";

/** The host's search path. */
export function hostPath(): string {
  return hostEnv("PATH") ?? DEFAULT_PATH;
}

/** The program that runs this process. */
export function ownProgram(): ProgramPath {
  return asProgram(Deno.execPath());
}

/**
 * Deno: the one that runs this process, unless this is a compiled executable or may only run `deno`.
 */
export async function denoProgram(search: ProgramSearch = {}): Promise<ProgramPath> {
  const own = ownProgram();
  if (!Deno.build.standalone && isGranted({ name: "run", command: own })) return own;
  return await requireProgram("deno", search);
}

/**
 * A program at a path that comes from a trusted source: the user or ipybox itself.
 */
export function namedProgram(path: string, folder: string = "."): ProgramPath {
  if (!path.includes("/")) throw new TypeError(`"${path}" is a program name, not a path`);
  return asProgram(isAbsolute(path) ? path : resolve(folder, path));
}

/**
 * Looks for a program where executed code cannot put one: not in a workspace, a `node_modules/.bin`, a
 * relative folder or one that everybody can write to, and not through a link that leads into a workspace.
 *
 * If Deno's permissions do not allow looking, this is the program that they allow to run.
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

/** Like {@linkcode findProgram}, but throws if no program is found. */
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

/** The program of a user's command, given by path or name. */
export async function programOf(
  command: string,
  search: ProgramSearch & { readonly folder?: string } = {},
): Promise<ProgramPath> {
  return command.includes("/")
    ? namedProgram(command, search.folder)
    : await requireProgram(command, search);
}

/** A file with the wanted name, and why it was skipped. */
interface Candidate {
  readonly file: string;
  readonly problem: string | undefined;
}

async function* candidates(
  name: string,
  { path = hostPath(), untrusted = [] }: ProgramSearch,
): AsyncGenerator<Candidate> {
  if (name === "" || name.includes("/")) throw new TypeError(`"${name}" is not a program name`);
  for (const folder of new Set(path.split(delimiter))) {
    const file = join(resolve(folder), name);
    if (!await isThere(file)) continue;
    yield {
      file,
      problem: await whyNotSearched(folder, untrusted) ?? await whyCode(file, untrusted),
    };
  }
}

/** Whether there is a program at a path. Without read permission, a permission to run it counts. */
async function isThere(file: string): Promise<boolean> {
  if (!mayRead(file)) {
    return !isGranted({ name: "run" }) && isGranted({ name: "run", command: file });
  }
  try {
    const { isFile, mode } = await Deno.stat(file);
    return isFile && (mode === null || (mode & 0o111) !== 0);
  } catch {
    return false; // missing or unreachable: it cannot run either way
  }
}

function asProgram(path: string): ProgramPath {
  return path as ProgramPath;
}
