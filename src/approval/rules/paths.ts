import { dirname, isAbsolute, join, resolve } from "node:path";
import { isWide } from "../../sandbox/workspace.ts";
import { isHiddenName, SHARED_BY_SANDBOXES, STATE_FOLDER } from "../../sandbox/protect.ts";
import { type Match, sure } from "./match.ts";

/** Says where paths in arguments lead. */
export interface PathJudge {
  /** Whether a path is in a folder, or is the folder. */
  isInside(path: string, folder: string): Match;
}

/** Options of {@linkcode pathJudge}. */
export interface PathJudgeOptions {
  /** Where a policy's relative folders start; without it they match nothing. */
  readonly workspace?: string;
  /** What `~` stands for in a policy. */
  readonly home?: string;
}

/**
 * Judges paths by where they lead now, symbolic links included. What code can change, such as a link
 * in the workspace, may lead elsewhere by the time the path is used.
 *
 * A policy's own folders are followed when it is loaded. One that leads elsewhere since, or through a
 * link that code could have put there, is not the folder that the policy's author meant: nothing is
 * surely in it.
 *
 * Only absolute paths of usual characters can be judged. A relative one starts wherever its server has
 * it start, which need not be its working directory: a server may look in each folder that it is
 * allowed. And servers may trim, expand or decode the others.
 */
export function pathJudge(folders: Iterable<string>, options: PathJudgeOptions): PathJudge {
  const { workspace, home } = options;
  const absolute = (path: string): string | undefined => {
    if (path === "~" || path.startsWith("~/")) {
      return home === undefined ? undefined : join(home, path.slice(1));
    }
    if (isAbsolute(path)) return resolve(path);
    return workspace === undefined ? undefined : resolve(workspace, path);
  };
  const known = new Map([...folders].map((folder) => {
    const path = absolute(folder);
    return [folder, path && follow(path, workspace)?.real];
  }));
  return {
    isInside: (path, folder) => {
      const [outer, inner] = [absolute(folder), resolve(path)];
      if (!isPlain(path) || outer === undefined) return "maybe";
      const [way, outerWay] = [follow(inner, workspace), follow(outer, workspace)];
      if (way === undefined || way.ofProcess || outerWay === undefined) return "maybe";
      const [realInner, realOuter, meant] = [way.real, outerWay.real, known.get(folder)];
      const real = contains(realOuter, realInner);
      // To some file systems and servers these are the same
      if (!real && contains(folded(realOuter), folded(realInner))) return "maybe";
      // A rule on a folder is not meant for what code must not see in there
      if (real && isHidden(realInner.slice(realOuter.length))) return "maybe";
      const written = contains(outer, inner) || contains(realOuter, inner);
      if (outerWay.byCode || realOuter !== meant) {
        const wasIn = meant !== undefined && contains(meant, realInner);
        return real || written || wasIn ? "maybe" : "no";
      }
      // By way of a link elsewhere, which may lead elsewhere by then
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

/** Where a path leads, and through what. */
interface Way {
  /** The place, without links. Its last parts may not be there yet. */
  readonly real: string;
  /** Whether it goes by what leads each process elsewhere. */
  readonly ofProcess: boolean;
  /** Whether it goes by a link that code could have put there. */
  readonly byCode: boolean;
}

/** Follows a path link by link. `undefined` where none can tell where it leads. */
function follow(path: string, workspace: string | undefined): Way | undefined {
  const names = namesOf(path);
  let [real, links, ofProcess, byCode] = ["/", 0, false, false];
  for (let name = names.shift(); name !== undefined; name = names.shift()) {
    if (name === "..") {
      real = dirname(real);
      continue;
    }
    const next = join(real, name);
    ofProcess ||= OF_PROCESS.test(next);
    const target = linkTarget(next);
    if (target === undefined) {
      real = next;
      continue;
    }
    if (++links > MAX_LINKS) return undefined;
    byCode ||= isCodes(next, workspace);
    if (isAbsolute(target)) real = "/";
    names.unshift(...namesOf(target));
  }
  // Two looks at a way that code changes between them, or at one that cannot be seen, differ
  return ofProcess || realPath(path) === real ? { real, ofProcess, byCode } : undefined;
}

function namesOf(path: string): string[] {
  return path.split("/").filter((name) => name !== "" && name !== ".");
}

/** Whether code may have put a link where it is: in this workspace, another one, or their shared folder. */
function isCodes(link: string, workspace: string | undefined): boolean {
  const own = workspace === undefined ? undefined : realPath(resolve(workspace));
  for (let folder = dirname(link);; folder = dirname(folder)) {
    if (folder === own || folder === SHARED_BY_SANDBOXES) return true;
    if (folder === dirname(folder)) return false;
    if (!isWide(folder) && isFolder(join(folder, STATE_FOLDER))) return true;
  }
}

function isFolder(path: string): boolean {
  try {
    return Deno.lstatSync(path).isDirectory;
  } catch {
    return false; // not there, or not to be seen, as what code cannot write to
  }
}

function linkTarget(path: string): string | undefined {
  try {
    return Deno.readLinkSync(path);
  } catch {
    return undefined; // it is not a link, or realPath() finds what is wrong
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
