import { dirname, isAbsolute, join, resolve } from "node:path";
import { isHiddenName } from "../sandbox/protected_paths.ts";
import { type Match, sure } from "./match.ts";

/** Says where paths in arguments lead. */
export interface PathJudge {
  /** Whether a path is in a folder, or is the folder. */
  isInside(path: string, folder: string): Match;
}

/** Options of {@linkcode pathJudge}. */
export interface PathJudgeOptions {
  /** Where the relative folders of a policy start; without it they are nowhere. */
  readonly workspace?: string | undefined;
  /** What `~` stands for in a policy. */
  readonly home?: string | undefined;
}

/**
 * Judges paths by where they lead now, symbolic links included. What code can change, such as a link
 * in the workspace, may lead elsewhere by the time the path is used.
 *
 * Only absolute paths of usual characters can be judged. A relative one starts wherever its server has
 * it start, which need not be its working directory: a server may look in each folder that it is
 * allowed. And servers may trim, expand or decode the others.
 *
 * @param options The workspace and the home folder.
 * @returns The judge.
 */
export function pathJudge(options: PathJudgeOptions): PathJudge {
  const { workspace, home } = options;
  const absolute = (path: string): string | undefined => {
    if (path === "~" || path.startsWith("~/")) {
      return home === undefined ? undefined : join(home, path.slice(1));
    }
    if (isAbsolute(path)) return resolve(path);
    return workspace === undefined ? undefined : resolve(workspace, path);
  };
  return {
    isInside: (path, folder) => {
      const outer = absolute(folder);
      if (!isPlain(path) || outer === undefined) return "maybe";
      const inner = resolve(path);
      if (passesProcess(inner)) return "maybe";
      const [realInner, realOuter] = [realPath(inner), realPath(outer)];
      if (realInner === undefined || realOuter === undefined) return "maybe";
      const real = contains(realOuter, realInner);
      // To some file systems and servers these are the same
      if (!real && contains(folded(realOuter), folded(realInner))) return "maybe";
      // A rule on a folder is not meant for what code must not see in there
      if (real && isHidden(realInner.slice(realOuter.length))) return "maybe";
      // By way of a link elsewhere, which may lead elsewhere by then
      const written = contains(outer, inner) || contains(realOuter, inner);
      return written === real ? sure(real) : "maybe";
    },
  };
}

/** Longer ones are for no system. */
const MAX_PATH = 4096;
/** More links than systems follow. */
const MAX_LINKS = 40;

/** What leads each process elsewhere: to its own folder, root or files. */
const OF_PROCESS = /^\/(proc|dev\/fd|dev\/std[^/]*)(\/|$)/;

/** Whether a path, or a link on its way, goes by what leads each process elsewhere. */
function passesProcess(path: string, links = 0): boolean {
  if (OF_PROCESS.test(path) || links > MAX_LINKS) return true;
  const parts = path.split("/").slice(1);
  let folder = "/";
  for (const [index, part] of parts.entries()) {
    const current = join(folder, part);
    const target = linkTarget(current);
    if (target !== undefined) {
      return passesProcess(resolve(folder, target, ...parts.slice(index + 1)), links + 1);
    }
    folder = current;
  }
  return false;
}

function linkTarget(path: string): string | undefined {
  try {
    return Deno.readLinkSync(path);
  } catch {
    return undefined; // it is no link, or realPath() finds what is wrong
  }
}

/** Letters and digits of all scripts, and what no program reads as anything but a part of a name. */
const PLAIN = /^\/(?!\/)[\p{L}\p{M}\p{N} /._@+=()-]*$/u;

/** Whether all programs read a path alike. */
function isPlain(path: string): boolean {
  return path.length <= MAX_PATH && PLAIN.test(path) && !path.endsWith(" ") &&
    !path.split("/").includes("..") && // after a symbolic link, it leads elsewhere than it says
    path.normalize("NFKC") === path; // look-alikes may become what they look like
}

function isHidden(path: string): boolean {
  return path.toLowerCase().split("/").some(isHiddenName);
}

/** The same for names that differ in case or in how their characters are composed. */
function folded(path: string): string {
  return path.normalize("NFKC").toLowerCase();
}

/** Where a path leads, its last parts not being there yet perhaps. `undefined` where none can tell. */
function realPath(path: string): string | undefined {
  const missing: string[] = [];
  for (let current = path;; current = dirname(current)) {
    try {
      return join(Deno.realPathSync(current), ...missing);
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound) || dirname(current) === current) {
        return undefined;
      }
      if (isDanglingLink(current)) return undefined;
      missing.unshift(current.slice(dirname(current).length).replace(/^\//, ""));
    }
  }
}

function isDanglingLink(path: string): boolean {
  try {
    return Deno.lstatSync(path).isSymlink;
  } catch {
    return false; // it is not there at all
  }
}

function contains(folder: string, path: string): boolean {
  return path === folder || path.startsWith(folder.endsWith("/") ? folder : `${folder}/`);
}
