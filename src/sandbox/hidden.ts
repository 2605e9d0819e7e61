/**
 * What executed code does not see of a folder that it works in: ipybox's own state, secrets by their
 * names, and sockets, on which a program of the host may listen.
 *
 * @module
 */
import { join } from "node:path";
import { ifPresent } from "../files/safe.ts";
import { isInside } from "../process/trusted_path.ts";

/** ipybox's folder in a workspace. */
export const STATE_FOLDER = ".ipybox";

/** How many levels of folders are searched. */
const MAX_DEPTH = 4;
/** How many entries are looked at, which takes about two seconds. */
const MAX_ENTRIES = 1_000_000;
/** How many paths can be hidden: each is a mount, and mounts make every start slower. */
const MAX_HIDDEN = 500;

/** Folders without secrets of the user's, however much they hold. */
const UNSEARCHED: ReadonlySet<string> = new Set([".git", "node_modules"]);

const SECRET_FILES: ReadonlySet<string> = new Set([
  ".boto",
  ".envrc",
  ".git-credentials",
  ".my.cnf",
  ".netrc",
  ".npmrc",
  ".pgpass",
  ".pypirc",
  ".s3cfg",
  ".vault-token",
  "credentials.toml",
  ...["dsa", "ecdsa", "ed25519", "rsa"].flatMap((kind) => [`id_${kind}`, `id_${kind}_sk`]),
]);
const DOTENV = /^\.(?:env|dev\.vars)(?:\.|$)/;
const EXAMPLE = /\.(example|sample|template)$/;

/** What was found to hide, and what could not be. */
export interface Hidden {
  /** The paths to hide, of which at most {@linkcode MAX_HIDDEN} are given. */
  readonly paths: readonly string[];
  /** Why code may see more than it should, in a sentence for the user. */
  readonly warnings: readonly string[];
}

/** Finds what code must not see of a folder. Links are not followed, but what a secret's link leads to counts. */
export async function findHidden(folder: string): Promise<Hidden> {
  const found = new Set<string>();
  const warnings: string[] = [];
  let entries = 0;
  const search = async (at: string, isLast: boolean): Promise<string[]> => {
    const below: string[] = [];
    for (const entry of await entriesOf(at)) {
      if (++entries > MAX_ENTRIES) break;
      const { name } = entry;
      const path = join(at, name);
      if (name.includes(LOST) && !await isThere(path)) {
        if (entry.isDirectory) warnings.push(unreadableName(at, name));
      } else if (isHiddenName(name) && !(entry.isDirectory && name !== STATE_FOLDER)) {
        found.add(entry.isSymlink ? await targetIn(folder, path) ?? path : path);
      } else if (await isSocket(entry, path)) {
        found.add(path);
      } else if (entry.isDirectory && !isLast) {
        if (!UNSEARCHED.has(name)) below.push(path);
        else if (name === ".git") await search(path, true); // programs of git listen there
      }
    }
    return below;
  };
  let level = [folder];
  for (let depth = 1; level.length > 0 && depth <= MAX_DEPTH; depth++) {
    const isLast = depth === MAX_DEPTH;
    level = (await Promise.all(level.map((at) => search(at, isLast)))).flat();
  }
  if (entries > MAX_ENTRIES) {
    warnings.push(
      `${folder} has more than ${MAX_ENTRIES} files and folders: secrets were only looked for among these`,
    );
  }
  const paths = [...found];
  if (paths.length > MAX_HIDDEN) {
    warnings.push(
      `Code can read ${
        paths.length - MAX_HIDDEN
      } files with names of secrets in ${folder}, such as ` +
        `${paths[MAX_HIDDEN]}: at most ${MAX_HIDDEN} can be hidden`,
    );
  }
  return { paths: paths.slice(0, MAX_HIDDEN), warnings };
}

/** Whether files and folders of this name are hidden from executed code. */
export function isHiddenName(name: string): boolean {
  const isSecret = (SECRET_FILES.has(name) || DOTENV.test(name)) && !EXAMPLE.test(name);
  return name === STATE_FOLDER || isSecret;
}

/** Replaces bytes that are not UTF-8, but may also be a character of a name. */
const LOST = "\ufffd";

function unreadableName(folder: string, name: string): string {
  const shown = name.replaceAll(LOST, "\\x??");
  return `Code can read secrets in ${folder}/${shown}, whose name is not UTF-8 (\`ls -b\` shows its bytes)`;
}

async function isThere(path: string): Promise<boolean> {
  return await ifPresent(Deno.lstat(path)) !== undefined;
}

/** A folder that cannot be listed is one that code cannot list either. */
async function entriesOf(folder: string): Promise<Deno.DirEntry[]> {
  try {
    return await Array.fromAsync(Deno.readDir(folder));
  } catch (error) {
    const { NotFound, PermissionDenied } = Deno.errors;
    if (error instanceof NotFound || error instanceof PermissionDenied) return [];
    throw error;
  }
}

async function isSocket(entry: Deno.DirEntry, path: string): Promise<boolean> {
  if (entry.isFile || entry.isDirectory || entry.isSymlink) return false;
  return (await ifPresent(Deno.lstat(path)))?.isSocket === true;
}

/** The target of a link, if it is in the folder. */
async function targetIn(folder: string, link: string): Promise<string | undefined> {
  try {
    const target = await Deno.realPath(link);
    return isInside(target, folder) && target !== folder ? target : undefined;
  } catch (error) {
    const { FilesystemLoop, NotCapable, NotFound, PermissionDenied } = Deno.errors;
    const nowhere = [FilesystemLoop, NotCapable, NotFound, PermissionDenied];
    if (nowhere.some((reason) => error instanceof reason)) return undefined;
    throw error;
  }
}
