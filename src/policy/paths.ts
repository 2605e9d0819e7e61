import { dirname, isAbsolute, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { type Match, sure } from "./match.ts";

/** Says where paths in arguments lead. */
export interface PathJudge {
  /** Whether a path is in a folder, or is the folder. */
  isInside(path: string, folder: string): Match;
}

/** Options of {@linkcode pathJudge}. */
export interface PathJudgeOptions {
  /** Where relative paths start; without it they lead nobody knows where. */
  readonly workspace?: string | undefined;
  /** What `~` stands for. */
  readonly home?: string | undefined;
}

/**
 * Judges paths by where they lead now, symbolic links included. What code can change, such as a link
 * in the workspace, may lead elsewhere by the time the path is used.
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
      const plain = plainPath(path);
      const [inner, outer] = [plain === undefined ? undefined : absolute(plain), absolute(folder)];
      if (plain === undefined || inner === undefined || outer === undefined) return "maybe";
      // After a symbolic link, `..` leads elsewhere than it says
      if (plain.split("/").includes("..")) return "maybe";
      // A program may expand "~" or take it as it is
      if (path.startsWith("~")) return contains(outer, inner) ? "maybe" : "no";
      const [realInner, realOuter] = [realPath(inner), realPath(outer)];
      const written = contains(outer, inner);
      if (realInner === undefined || realOuter === undefined) return "maybe";
      const real = contains(realOuter, realInner);
      return written === real || outer !== realOuter ? sure(real) : "maybe";
    },
  };
}

/** The path in a text, or `undefined` where programs differ in how they read it. */
function plainPath(text: string): string | undefined {
  if (text.includes("\0") || text.includes("\\")) return undefined;
  if (!/^[a-z][a-z0-9+.-]*:/i.test(text)) return text;
  if (!/^file:/i.test(text)) return undefined;
  try {
    return fileURLToPath(text);
  } catch {
    return undefined; // not the address of a file of this machine
  }
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
