import { dirname, isAbsolute, join, resolve } from "node:path";
import { isWide } from "../../sandbox/workspace.ts";
import { isHiddenName } from "../../sandbox/hidden.ts";
import { codeOf } from "../../base/message_of.ts";
import { mayRead } from "../../base/permission.ts";
import { STATE_FOLDER } from "../../process/trusted_path.ts";
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
export function pathJudge(
  folders: Iterable<string>,
  options: PathJudgeOptions,
): () => PathJudge {
  const { workspace, home } = options;
  const absolute = (path: string): string | undefined => {
    if (path.length > MAX_PATH || MARKS.test(path)) return undefined; // it takes long to normalize
    if (path === "~" || path.startsWith("~/")) {
      return home === undefined ? undefined : join(home, path.slice(1));
    }
    if (isAbsolute(path)) return resolve(path);
    return workspace === undefined ? undefined : resolve(workspace, path);
  };
  const known = new Map<string, string>();
  for (const folder of folders) {
    const path = absolute(folder);
    const real = path && follow(path, () => true)?.real;
    if (real !== undefined) known.set(folder, real);
  }
  const isInside = (path: string, folder: string, { way, mayLook }: Looks): Match => {
    if (!isPlain(path)) return "maybe"; // first: the rest is slow for other texts
    const [outer, inner] = [absolute(folder), resolve(path)];
    if (outer === undefined) return "maybe";
    const [innerWay, outerWay] = [way(inner), way(outer)];
    if (innerWay === undefined || innerWay.ofProcess || outerWay === undefined) return "maybe";
    const [realInner, realOuter, meant] = [innerWay.real, outerWay.real, known.get(folder)];
    const real = contains(realOuter, realInner);
    // Some file systems and servers treat these as the same
    if (!real && contains(folded(realOuter), folded(realInner))) return "maybe";
    // A rule for a folder does not apply to files in it that are hidden from code
    if (real && isHidden(realInner.slice(realOuter.length))) return "maybe";
    const written = contains(outer, inner) || contains(realOuter, inner);
    if (
      realOuter !== meant || outerWay.links.some((link) => isCodes(link, { workspace, mayLook }))
    ) {
      const wasIn = meant !== undefined && contains(meant, realInner);
      return real || written || wasIn ? "maybe" : "no";
    }
    // The path leads through a link, which may lead elsewhere when it is used
    return written === real ? sure(real) : "maybe";
  };
  return () => {
    let looks = 0;
    // The system walks the whole path each time.
    const mayLook = (path: string) => (looks += 1 + path.length / LOOK_CHARACTERS) <= MAX_LOOKS;
    const ways = new Map<string, Way | undefined>();
    const way = (path: string) => ways.getOrInsertComputed(path, () => follow(path, mayLook));
    return { isInside: (path, folder) => isInside(path, folder, { way, mayLook }) };
  };
}

/** How paths of one call are looked up. */
interface Looks {
  readonly way: (path: string) => Way | undefined;
  /** Counts a look at a path; `false` after too many. */
  readonly mayLook: (path: string) => boolean;
}

/** The most folders and links to look at for one call: code can make thousands of links. */
const MAX_LOOKS = 5000;
/** The number of characters of a path that count as another look. */
const LOOK_CHARACTERS = 100;
/** Systems do not accept longer paths. */
const MAX_PATH = 4096;
/** More links than systems follow. */
const MAX_LINKS = 40;

/** Paths that differ between processes: to their own folder, root or files. */
const OF_PROCESS = /^\/(proc|dev\/fd|dev\/std[^/]*)(\/|$)/;

/** Where a path leads, and the links on the way. */
interface Way {
  /** The target, without links. Its last components may not exist yet. */
  readonly real: string;
  /** Whether it leads through a path that differs between processes. */
  readonly ofProcess: boolean;
  /** The links that it leads through. */
  readonly links: readonly string[];
}

/** Follows a path link by link; `undefined` if that takes too many looks. */
function follow(path: string, mayLook: Looks["mayLook"]): Way | undefined {
  const names = namesOf(path);
  const links: string[] = [];
  let [real, ofProcess, isUnseen] = ["/", false, false];
  let existing: string | undefined; // the last folder before the missing part
  let fromLinks = 0; // how many of the names come from links
  for (let name = names.shift(); name !== undefined; name = names.shift()) {
    const isFromLink = fromLinks > 0;
    if (isFromLink) fromLinks--;
    if (name === "..") {
      real = dirname(real);
      continue;
    }
    const next = join(real, name);
    ofProcess ||= OF_PROCESS.test(next);
    if (!mayLook(next)) return undefined;
    const target = targetOf(next);
    if (target === "unknown") return undefined;
    if (target === "missing") {
      if (isFromLink) return undefined; // a dangling link
      existing = real;
      real = join(next, ...names);
      ofProcess ||= OF_PROCESS.test(real);
      break;
    }
    if (target === "unseen") isUnseen = true;
    if (typeof target === "string") {
      real = next;
      continue;
    }
    if (links.push(next) > MAX_LINKS) return undefined;
    if (isAbsolute(target.path)) real = "/";
    const more = namesOf(target.path);
    names.unshift(...more);
    fromLinks += more.length;
  }
  // Deno may be allowed to look at a path, but not at each folder above it
  if (isUnseen && realPath(existing ?? real) !== (existing ?? real)) return undefined;
  return { real, ofProcess, links };
}

function namesOf(path: string): string[] {
  return path.split("/").filter((name) => name !== "" && name !== ".");
}

/** Whether code may have created a link: in this workspace or another one. */
function isCodes(
  link: string,
  { workspace, mayLook }: Pick<Looks, "mayLook"> & { readonly workspace: string | undefined },
): boolean {
  const own = workspace === undefined ? undefined : realPath(workspace);
  if (own !== undefined && contains(own, link)) return true;
  for (let folder = dirname(link); mayLook(folder); folder = dirname(folder)) {
    if (folder === dirname(folder)) return false;
    if (!isWide(folder) && isFolder(join(folder, STATE_FOLDER))) return true;
  }
  return true; // too deep to decide
}

function realPath(path: string): string | undefined {
  try {
    return Deno.realPathSync(path);
  } catch {
    return undefined; // missing or unreadable, so code cannot have created anything in it
  }
}

function isFolder(path: string): boolean {
  try {
    return Deno.lstatSync(path).isDirectory;
  } catch {
    return false; // missing or unreadable, so code cannot write to it
  }
}

/** The target of a link: `"unseen"` if Deno forbids looking, `"unknown"` if the system does. */
function targetOf(
  path: string,
): { readonly path: string } | "none" | "missing" | "unseen" | "unknown" {
  if (!mayRead(path)) return "unseen";
  try {
    return Deno.lstatSync(path).isSymlink ? { path: Deno.readLinkSync(path) } : "none";
  } catch (error) {
    return codeOf(error) === "ENOENT" ? "missing" : "unknown";
  }
}

/**
 * More marks in a row than any script has. The time to order them grows with the square of their
 * number.
 */
const MARKS = /\p{M}{9}/u;

/** Letters and digits of all scripts, and characters that every program treats as part of a name. */
const PLAIN = /^\/(?!\/)[\p{L}\p{M}\p{N} /._@+=()-]*$/u;

/** Whether all programs interpret a path alike. */
function isPlain(path: string): boolean {
  return path.length <= MAX_PATH && PLAIN.test(path) && !MARKS.test(path) && !path.endsWith(" ") &&
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

function contains(folder: string, path: string): boolean {
  return path === folder || path.startsWith(folder.endsWith("/") ? folder : `${folder}/`);
}
