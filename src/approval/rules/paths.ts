import { dirname, isAbsolute, join, resolve } from "node:path";
import { isWide } from "../../sandbox/workspace.ts";
import { isHiddenName, SHARED_BY_SANDBOXES, STATE_FOLDER } from "../../sandbox/protect.ts";
import { type Match, sure } from "./match.ts";

/** Judges where paths in arguments lead. */
export interface PathJudge {
  /** Whether a path is in a folder, or is the folder. */
  isInside(path: string, folder: string): Match;
}

/** Options of {@linkcode pathJudge}. */
export interface PathJudgeOptions {
  /** The base of a policy's relative folders; without it, they match nothing. */
  readonly workspace?: string;
  /** The replacement of `~` in a policy. */
  readonly home?: string;
}

/**
 * Judges paths by where they lead now, including symbolic links. Anything that code can change,
 * such as a link in the workspace, may lead elsewhere when the path is used.
 *
 * The policy's own folders are resolved when it is loaded. If a folder leads elsewhere later, or
 * leads through a link that code could have created, it is not the folder that the policy's author
 * meant, so nothing is certain to be in it.
 *
 * Only absolute paths of ordinary characters can be judged. A relative path starts wherever its
 * server decides, which need not be its working directory: a server may search every folder that it
 * has access to. And servers may trim, expand or decode other characters.
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
      // Some file systems and servers treat these as the same
      if (!real && contains(folded(realOuter), folded(realInner))) return "maybe";
      // A rule for a folder does not apply to what is hidden from code in it
      if (real && isHidden(realInner.slice(realOuter.length))) return "maybe";
      const written = contains(outer, inner) || contains(realOuter, inner);
      if (outerWay.byCode || realOuter !== meant) {
        const wasIn = meant !== undefined && contains(meant, realInner);
        return real || written || wasIn ? "maybe" : "no";
      }
      // The path leads through a link, which may lead elsewhere when it is used
      return written === real ? sure(real) : "maybe";
    },
  };
}

/** Systems do not accept longer paths. */
const MAX_PATH = 4096;
/** More links than systems follow. */
const MAX_LINKS = 40;

/** Paths that differ between processes: to their own folder, root or files. */
const OF_PROCESS = /^\/(proc|dev\/fd|dev\/std[^/]*)(\/|$)/;

/** Where a path leads, and through what. */
interface Way {
  /** The target, without links. Its last components may not exist yet. */
  readonly real: string;
  /** Whether it leads through a path that differs between processes. */
  readonly ofProcess: boolean;
  /** Whether it leads through a link that code could have created. */
  readonly byCode: boolean;
}

/** Follows a path link by link; `undefined` if its target cannot be determined. */
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
  // Two lookups of a path differ if code changes it in between, or if a part is unreadable
  return ofProcess || realPath(path) === real ? { real, ofProcess, byCode } : undefined;
}

function namesOf(path: string): string[] {
  return path.split("/").filter((name) => name !== "" && name !== ".");
}

/** Whether code may have created a link: in this workspace, another one, or their shared folder. */
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
    return false; // missing or unreadable, so code cannot write to it
  }
}

function linkTarget(path: string): string | undefined {
  try {
    return Deno.readLinkSync(path);
  } catch {
    return undefined; // it is not a link, or realPath() finds the problem
  }
}

/** Letters and digits of all scripts, and characters that every program treats as part of a name. */
const PLAIN = /^\/(?!\/)[\p{L}\p{M}\p{N} /._@+=()-]*$/u;

/** Whether all programs interpret a path alike. */
function isPlain(path: string): boolean {
  return path.length <= MAX_PATH && PLAIN.test(path) && !path.endsWith(" ") &&
    !path.split("/").includes("..") && // after a link, it leads elsewhere than it seems to
    path.normalize("NFKC") === path; // a program may normalize look-alikes
}

function isHidden(path: string): boolean {
  return path.toLowerCase().split("/").some(isHiddenName);
}

/** Equal for names that differ only in case or in the composition of characters. */
function folded(path: string): string {
  return path.normalize("NFKC").toLowerCase();
}

/** Where a path leads, even if its last components do not exist yet; `undefined` if unknown. */
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
    return false; // it does not exist
  }
}

function contains(folder: string, path: string): boolean {
  return path === folder || path.startsWith(folder.endsWith("/") ? folder : `${folder}/`);
}
