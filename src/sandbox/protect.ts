import { basename, dirname, join, relative } from "node:path";
import { z } from "zod";
import { ConfigError } from "../base/errors.ts";
import { messageOf } from "../base/message_of.ts";
import { FairTurns } from "../base/signals.ts";
import { mayRead, mayUse } from "../base/permission.ts";
import { PinnedFolder } from "../files/pinned_folder.ts";
import { lockUserFolder, replaceFile } from "../files/safe.ts";
import { isUnwritable, stateFolder } from "../files/user_folders.ts";
import { sha256 } from "../json/digest.ts";
import { isInside } from "../process/trusted_path.ts";

/** What in a workspace sandboxed code must not touch. All of these exist. */
export interface ProtectedPaths {
  /** Neither to be read nor written: the host's own state, and secrets. */
  readonly unreadable: readonly string[];
  /** To be read only: what the host or another program would run or obey. */
  readonly readOnly: readonly string[];
}

/** What {@linkcode findProtectedPaths} found. */
interface FoundPaths extends ProtectedPaths {
  /** The host's own state of other workspaces in this one, which is unreadable too. */
  readonly otherStates: readonly string[];
}

/** How far {@linkcode findProtectedPaths} looks. */
interface FindProtectedPathsOptions {
  /**
   * How many folders deep.
   *
   * @default {4}
   */
  maxDepth?: number;
  /**
   * How many entries at most, besides those of the workspace itself.
   *
   * @default {1000000} about three seconds
   */
  maxEntries?: number;
  /**
   * Whether code may write there. Where it may not, links need no protection.
   *
   * @default {true}
   */
  writable?: boolean;
}

/** The folders of ours, which are made so that code inside cannot make them. */
export const STATE_FOLDER = ".ipybox";
const GENERATED = "mcptools";

/** `srt` lets every sandbox of this user write there: their common place to meet. */
export const SHARED_BY_SANDBOXES = "/tmp/claude";

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

const OBEYED: ReadonlySet<string> = new Set([
  ".Renviron",
  ".Rprofile",
  ".agent",
  ".agents",
  ".aider.conf.yml",
  ".amazonq",
  ".augment",
  ".augment-guidelines",
  ".bash_aliases",
  ".bash_login",
  ".bash_logout",
  ".bash_profile",
  ".bashrc",
  ".bundle",
  ".cargo",
  ".circleci",
  ".claude",
  ".cline",
  ".clinerules",
  ".codex",
  ".continue",
  ".copilot",
  ".crush",
  ".crush.json",
  ".cshrc",
  ".cursor",
  ".cursorrules",
  ".devcontainer",
  ".devcontainer.json",
  ".dir-locals.el",
  ".direnvrc",
  ".erlang",
  ".exrc",
  ".factory",
  ".fleet",
  ".gdbinit",
  ".gemini",
  ".ghci",
  ".git",
  ".gitattributes",
  ".gitconfig",
  ".github",
  ".gitlab-ci.yml",
  ".gitmodules",
  ".goose",
  ".goosehints",
  ".gvimrc",
  ".helix",
  ".hg",
  ".husky",
  ".idea",
  ".iex.exs",
  ".inputrc",
  ".irbrc",
  ".jj",
  ".junie",
  ".kilocode",
  ".kiro",
  ".kshrc",
  ".lefthook-local.json",
  ".lefthook-local.toml",
  ".lefthook-local.yaml",
  ".lefthook-local.yml",
  ".lefthook.json",
  ".lefthook.toml",
  ".lefthook.yaml",
  ".lefthook.yml",
  ".lldbinit",
  ".login",
  ".logout",
  ".lvimrc",
  ".mcp.json",
  ".mise",
  ".mise.local.toml",
  ".mise.toml",
  ".mvn",
  ".nvim.lua",
  ".nvimrc",
  ".ocamlinit",
  ".octaverc",
  ".opencode",
  ".pdbrc",
  ".pnp.cjs",
  ".pnp.loader.mjs",
  ".pnpmfile.cjs",
  ".pre-commit-config.yaml",
  ".profile",
  ".pryrc",
  ".qwen",
  ".roo",
  ".roomodes",
  ".roorules",
  ".rules",
  ".run",
  ".sl",
  ".tcshrc",
  ".tmux.conf",
  ".tool-versions",
  ".trae",
  ".venv",
  ".vimrc",
  ".vscode",
  ".windsurf",
  ".windsurfrules",
  ".yarn",
  ".yarnrc",
  ".yarnrc.yml",
  ".zed",
  ".zlogin",
  ".zlogout",
  ".zprofile",
  ".zshenv",
  ".zshrc",
  "AGENT.md",
  "AGENTS.md",
  "AGENTS.override.md",
  "CLAUDE.local.md",
  "CLAUDE.md",
  "GEMINI.md",
  "QWEN.md",
  "WARP.md",
  "bunfig.toml",
  "crush.json",
  "lefthook-local.json",
  "lefthook-local.toml",
  "lefthook-local.yaml",
  "lefthook-local.yml",
  "lefthook.json",
  "lefthook.toml",
  "lefthook.yaml",
  "lefthook.yml",
  "mise",
  "mise.local.toml",
  "mise.toml",
  "node_modules",
  "opencode.json",
  "opencode.jsonc",
  "rust-toolchain",
  "rust-toolchain.toml",
  "venv",
]);

/** What makes a folder an environment of Python, whatever its name: `venv`'s mark, and conda's. */
const ENVIRONMENTS: ReadonlySet<string> = new Set(["pyvenv.cfg", "conda-meta"]);
/** What in it is run; of a workspace that is an environment itself, no more than that is protected. */
const ENVIRONMENT_PARTS: ReadonlySet<string> = new Set(
  ["bin", "lib", "lib64", "Scripts", "Lib", ...ENVIRONMENTS],
);

/**
 * Makes the folders of a workspace that the host relies on, so that sandboxed code cannot make
 * them first.
 */
export async function makeOwnFolders(workspace: string): Promise<void> {
  await using folder = await PinnedFolder.open(workspace, { create: false });
  for (const [name, mode] of [[STATE_FOLDER, 0o700], [GENERATED, 0o755]] as const) {
    const path = `${workspace}/${name}`;
    try {
      await Deno.mkdir(`${folder.path}/${name}`, { mode });
    } catch (cause) {
      if (!(cause instanceof Deno.errors.AlreadyExists)) {
        const why = `Workspace "${workspace}" cannot be written to: ${messageOf(cause)}`;
        throw new ConfigError(why, { cause });
      }
    }
    if (!(await Deno.lstat(path)).isDirectory) {
      throw new ConfigError(`${path} must be a folder, not a file or a symbolic link: remove it`);
    }
  }
}

/**
 * Looks for what sandboxed code must not touch. Only what exists can be protected: a path that does
 * not would be made, on the host, by the sandbox itself. What is protected cannot be moved either, nor
 * can the folders above it, so that it is found again the next time.
 *
 * Nothing can keep code from replacing a link in a folder that it may write to. So the folder of a link
 * with such a name becomes read-only, and what it leads to is protected as if it had that name.
 */
export async function findProtectedPaths(
  workspace: string,
  options: FindProtectedPathsOptions = {},
): Promise<FoundPaths> {
  const { maxDepth = 4, maxEntries = 1_000_000, writable = true } = options;
  const unreadable: string[] = [];
  const readOnly: string[] = await exists(SHARED_BY_SANDBOXES) ? [SHARED_BY_SANDBOXES] : [];
  let level = [workspace];
  let entries = 0;
  const turns = new FairTurns();
  for (let depth = 0; depth < maxDepth && level.length > 0; depth++) {
    const next: string[] = [];
    for (const folder of level) {
      const inside: string[] = [];
      const names = new Set<string>();
      const lost = new Set<string>();
      for await (const entry of listOr(folder, () => readOnly.push(folder))) {
        await turns.giveWay(); // code can fill a folder that other sessions have no part in
        if (depth > 0 && ++entries > maxEntries) throw tooLarge(workspace, maxEntries, maxDepth);
        const { name } = entry;
        const path = `${folder}/${name}`;
        const guard = guardOf(entry, depth === 0);
        if (name.includes(LOST) && (entry.isDirectory || guard !== undefined)) {
          if (lost.has(name) || !await isSame(entry, path)) throw unreadableName(folder, name);
          lost.add(name);
        }
        if (ENVIRONMENT_PARTS.has(name)) names.add(name);
        if (guard !== undefined && entry.isSymlink) {
          if (writable && folder === workspace) throw replaceableLink(path);
          readOnly.push(folder);
          const target = await targetIn(workspace, path);
          if (target !== undefined) (guard === "unreadable" ? unreadable : readOnly).push(target);
        } else if (guard === "unreadable") unreadable.push(path);
        else if (guard === "read-only") readOnly.push(path);
        else if (entry.isDirectory) inside.push(path);
        const found = unreadable.length + readOnly.length;
        if (found > MAX_MOUNTS) throw tooManyMounts([...unreadable, ...readOnly], workspace);
      }
      next.push(...inside);
      if (!names.isDisjointFrom(ENVIRONMENTS)) {
        readOnly.push(...depth > 0 ? [folder] : await environmentParts(workspace, names));
      }
    }
    level = next;
  }
  const own = `${workspace}/${STATE_FOLDER}`;
  const otherStates = unreadable.filter((path) => isState(path) && path !== own);
  return { unreadable, readOnly, otherStates };
}

/** Whether a path is that of the host's own state of a workspace. */
export function isState(path: string): boolean {
  return path.endsWith(`/${STATE_FOLDER}`);
}

/** How something is protected because of its name. */
type Guard = "unreadable" | "read-only";

function guardOf(entry: Deno.DirEntry, isTop: boolean): Guard | undefined {
  const { name, isFile, isSymlink } = entry;
  if (name === STATE_FOLDER) return "unreadable";
  if ((isFile || isSymlink) && isSecret(name)) return "unreadable";
  return OBEYED.has(name) || (isTop && name === GENERATED) ? "read-only" : undefined;
}

/**
 * Whether something of a workspace must not be in a copy of it for other code: what code must not read,
 * and links that no workspace may have, as code could replace them.
 */
export function isUncopied(entry: Deno.DirEntry, isTop: boolean): boolean {
  const guard = guardOf(entry, isTop);
  return guard === "unreadable" || (guard !== undefined && entry.isSymlink);
}

/** What is in the place of bytes that are not UTF-8, and may be a character of a name as well. */
const LOST = "\ufffd";

/** Whether the name that Deno gave an entry is the entry's, and not another one's. */
async function isSame(entry: Deno.DirEntry, path: string): Promise<boolean> {
  try {
    const { isDirectory, isSymlink } = await Deno.lstat(path);
    return isDirectory === entry.isDirectory && isSymlink === entry.isSymlink;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

function unreadableName(folder: string, name: string): ConfigError {
  const shown = name.replaceAll(LOST, "\\x??");
  return new ConfigError(
    `Cannot use ${folder}/${shown}: its name is not UTF-8, so secrets in it cannot be hidden from ` +
      `code. Rename or remove it: \`ls -b\` in ${folder} shows its bytes`,
  );
}

function replaceableLink(path: string): ConfigError {
  return new ConfigError(
    `Cannot use ${dirname(path)} as workspace: ${basename(path)} is a symbolic link in it, which ` +
      "executed code could replace with something that others run or obey. Replace it with its target, or " +
      "choose another folder as workspace",
  );
}

/** What a link in the workspace leads to, if that is in there too. */
async function targetIn(workspace: string, link: string): Promise<string | undefined> {
  try {
    const target = await Deno.realPath(link);
    return isInside(target, workspace) && target !== workspace ? target : undefined;
  } catch (error) {
    const { FilesystemLoop, NotCapable, NotFound, PermissionDenied } = Deno.errors;
    const nowhere = [FilesystemLoop, NotCapable, NotFound, PermissionDenied];
    if (nowhere.some((reason) => error instanceof reason)) return undefined;
    throw error;
  }
}

/** What is run of a workspace that is an environment itself. */
async function environmentParts(
  workspace: string,
  names: ReadonlySet<string>,
): Promise<string[]> {
  const parts = [...names.intersection(ENVIRONMENT_PARTS)].map((name) => `${workspace}/${name}`);
  for (const path of parts) {
    if ((await Deno.lstat(path)).isSymlink) throw replaceableLink(path);
  }
  return parts;
}

function tooLarge(workspace: string, maxEntries: number, maxDepth: number): ConfigError {
  return new ConfigError(
    `Cannot use ${workspace} as workspace: it has more than ${maxEntries} files and folders in its ` +
      `first ${maxDepth} levels, too many to search for secrets that code must not see; remove what you do ` +
      "not need, or choose a smaller folder",
  );
}

/** bubblewrap takes 9000 arguments, a mount takes three, and `srt` itself needs a few hundred. */
export const MAX_MOUNTS = 2800;

/** How many examples the error has. */
const EXAMPLES = 3;

/** What a workspace is refused with that has more to protect than bubblewrap could take. */
export function tooManyMounts(mounts: readonly string[], workspace: string): ConfigError {
  const inside = [...new Set(mounts)].filter((path) =>
    path !== workspace && isInside(path, workspace)
  );
  const folder = crowdedFolder(workspace, inside);
  const most = inside.filter((path) => isInside(path, folder));
  const examples = most.slice(0, EXAMPLES).map((path) => relative(folder, path)).join(", ");
  return new ConfigError(
    `Cannot use ${workspace} as workspace: ${most.length} files and folders in ${folder} ` +
      `(${examples}, …) must be hidden from code, more than a sandbox supports: remove what you do not ` +
      "need there",
  );
}

/** The deepest folder that has more than half of the paths. */
function crowdedFolder(root: string, paths: readonly string[]): string {
  let folder = root;
  while (true) {
    const counts = new Map<string, number>();
    for (const path of paths) {
      if (!path.startsWith(`${folder}/`)) continue;
      const [name = "", ...rest] = path.slice(folder.length + 1).split("/");
      if (rest.length > 0) counts.set(name, (counts.get(name) ?? 0) + 1);
    }
    const next = [...counts].find(([, count]) => count > paths.length / 2);
    if (next === undefined) return folder;
    folder = `${folder}/${next[0]}`;
  }
}

/** Lists a folder. One that may not be listed can still be opened up by code inside, its owner too. */
async function* listOr(folder: string, denied: () => void): AsyncGenerator<Deno.DirEntry> {
  try {
    yield* Deno.readDir(folder);
  } catch (error) {
    if (error instanceof Deno.errors.PermissionDenied) denied();
    else if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

async function exists(path: string): Promise<boolean> {
  return mayRead(path) && await Deno.lstat(path).then(() => true, () => false);
}

/** Whether a file or folder of this name is out of the sight of executed code. */
export function isHiddenName(name: string): boolean {
  return name === STATE_FOLDER || isSecret(name);
}

/** Whether files of this name usually have secrets in them. */
function isSecret(name: string): boolean {
  return (SECRET_FILES.has(name) || DOTENV.test(name)) && !EXAMPLE.test(name);
}

/** What a workspace had when code first could write there, and has had ever since. */
interface LastingPaths {
  /** The files and folders, of those that were given. */
  readonly paths: readonly string[];
  /** The file that remembers them; `undefined` where none can be kept, and nothing counts. */
  readonly record: string | undefined;
}

/**
 * The file whose presence says that code could write to a workspace, wherever its record is or whatever its
 * path was then. Code neither sees nor removes it.
 */
export const CODE_NOTE = `${STATE_FOLDER}/code-ran`;

/** Remembers what a workspace has, before code can write there. */
export async function beginWriting(workspace: string, present: readonly string[]): Promise<void> {
  await lastingPaths(workspace, present);
  await makeNote(join(workspace, CODE_NOTE));
}

/** Whatever is there already is note enough: a workspace from elsewhere may have a link in its place. */
export async function makeNote(path: string): Promise<void> {
  try {
    await Deno.writeTextFile(path, "", { createNew: true, mode: 0o600 });
  } catch (error) {
    if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
  }
}

const recordSchema = z.object({
  /** Which folder the workspace is, for another one may take its place. */
  workspace: z.string(),
  /** What was there, by its path in the workspace. */
  paths: z.record(z.string(), z.string()),
});

type Entries = z.infer<typeof recordSchema>;

/**
 * Finds what code never could write to. A name says nothing: a sandbox protects what is there when it
 * starts, so what appears or is made again while code runs may be the code's, also in later sessions.
 *
 * Therefore each sandbox that may write to a workspace, and each look before the first one, leaves a
 * record in the user's state folder, which code does not reach. It can only become smaller.
 */
export async function lastingPaths(
  workspace: string,
  present: readonly string[],
): Promise<LastingPaths> {
  const identity = await identityOf(workspace);
  const record = recordOf(workspace);
  if (record === undefined || identity === undefined) return { paths: [], record: undefined };
  const now: [path: string, identity: string][] = [];
  for (const path of new Set(present)) {
    if (path === workspace || !isInside(path, workspace)) continue;
    const identity = await identityOf(path);
    if (identity !== undefined) now.push([relative(workspace, path), identity]);
  }
  try {
    using _lock = await lockUserFolder(dirname(record));
    const isNoted = await exists(join(workspace, CODE_NOTE));
    const known = await readRecord(record, identity) ?? (isNoted ? {} : undefined);
    const lasting = now.filter(([path, identity]) =>
      known === undefined || (Object.hasOwn(known, path) && known[path] === identity)
    );
    if (known === undefined || lasting.length < Object.keys(known).length) {
      await writeRecord(record, { workspace: identity, paths: Object.fromEntries(lasting) });
    }
    return { paths: lasting.map(([path]) => join(workspace, path)), record };
  } catch (error) {
    if (isUnwritable(error)) return { paths: [], record: undefined };
    throw error;
  }
}

/** Forgets what a workspace had, once it is gone. */
export async function forgetWorkspace(workspace: string): Promise<void> {
  const record = recordOf(workspace);
  if (record === undefined || await exists(workspace)) return;
  try {
    using _lock = await lockUserFolder(dirname(record));
    await Deno.remove(record);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound) && !isUnwritable(error)) throw error;
  }
}

/** Where a workspace's record is; `undefined` where none can be kept. */
function recordOf(workspace: string): string | undefined {
  const state = stateFolder();
  const folder = state === undefined ? undefined : join(state, "protected");
  if (folder === undefined || !mayUse(folder)) return undefined;
  return join(folder, `${sha256(workspace).slice(0, 32)}.json`);
}

/**
 * Tells a file or folder from another one that takes its place. Its inode may be used again, but not
 * with the same time of birth, which no program can set on Linux; on macOS inodes are not used again.
 */
async function identityOf(path: string): Promise<string | undefined> {
  try {
    const { ino, birthtime } = await Deno.lstat(path);
    return ino === null || birthtime === null ? undefined : `${ino} ${birthtime.toISOString()}`;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

/** What is remembered of a workspace, if it is; of another folder in its place nothing is. */
async function readRecord(path: string, workspace: string): Promise<Entries["paths"] | undefined> {
  try {
    const entries = recordSchema.parse(JSON.parse(await Deno.readTextFile(path)));
    return entries.workspace === workspace ? entries.paths : undefined;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    if (error instanceof SyntaxError || error instanceof z.ZodError) return {}; // damaged
    throw error;
  }
}

async function writeRecord(path: string, entries: Entries): Promise<void> {
  await replaceFile(path, JSON.stringify(entries, null, 2) + "\n");
}
