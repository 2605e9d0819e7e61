import { basename, dirname, join, relative } from "node:path";
import { z } from "zod";
import { ConfigError } from "../base/errors.ts";
import { messageOf } from "../base/message_of.ts";
import { fairTurns } from "../base/signals.ts";
import { PinnedFolder } from "../files/pinned_folder.ts";
import { ifPresent, lockUserFolder, replaceFile } from "../files/safe.ts";
import { isUnwritable, usableState } from "../files/user_folders.ts";
import { sha256 } from "../json/digest.ts";
import { isForeignIn, isInside, lstatIfAllowed, ownId } from "../process/trusted_path.ts";

/** The existing paths in a workspace that sandboxed code must not touch. */
export interface ProtectedPaths {
  /** Neither readable nor writable: the host's own state, and secrets. */
  readonly unreadable: readonly string[];
  /** Read-only: what the host or another program would run or obey. */
  readonly readOnly: readonly string[];
}

/** The result of {@linkcode findProtectedPaths}. */
interface FoundPaths extends ProtectedPaths {
  /** The host's own state of other workspaces in this one that code can write to, which is unreadable too. */
  readonly otherStates: readonly string[];
}

/** Options of {@linkcode findProtectedPaths}. */
interface FindProtectedPathsOptions {
  /**
   * The most entries to search, besides those of the workspace itself.
   *
   * @default {1000000} about three seconds
   */
  maxEntries?: number;
  /**
   * Whether code may write to the folder. Otherwise, links need no protection.
   *
   * @default {true}
   */
  writable?: boolean;
}

/** How many levels of folders are searched for paths to protect. */
const MAX_DEPTH = 4;

/** ipybox's folders, which are created before code can create them. */
export const STATE_FOLDER = ".ipybox";
const GENERATED = "mcptools";

/** `srt` makes this folder writable in all sandboxes of a user, so they could communicate through it. */
export const SHARED_BY_SANDBOXES = "/tmp/claude";

/** Read-only folders that are not searched: they hold much, and what others published or we generated. */
const UNSEARCHED: ReadonlySet<string> = new Set([GENERATED, "node_modules"]);

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

/** Entries that mark a folder as a Python environment, whatever its name: those of `venv` and conda. */
const ENVIRONMENTS: ReadonlySet<string> = new Set(["pyvenv.cfg", "conda-meta"]);
/**
 * The parts of an environment with code; in a workspace that is an environment, only they are
 * protected.
 */
const ENVIRONMENT_PARTS: ReadonlySet<string> = new Set(
  ["bin", "lib", "lib64", "Scripts", "Lib", ...ENVIRONMENTS],
);

/**
 * Creates the folders of a workspace that the host relies on, so that sandboxed code cannot create
 * them first.
 */
export async function makeOwnFolders(workspace: string): Promise<void> {
  await using folder = await PinnedFolder.open(workspace, { create: false });
  const user = ownId();
  for (const [name, mode] of [[STATE_FOLDER, 0o700], [GENERATED, 0o755]] as const) {
    const path = `${workspace}/${name}`;
    try {
      await Deno.mkdir(`${folder.path}/${name}`, { mode });
    } catch (cause) {
      if (!(cause instanceof Deno.errors.AlreadyExists)) {
        const why = `Workspace "${workspace}" cannot be written to: ${
          messageOf(folder.named(cause))
        }`;
        throw new ConfigError(why, { cause });
      }
    }
    const info = await Deno.lstat(path);
    if (!info.isDirectory) {
      throw new ConfigError(`${path} must be a folder, not a file or a symbolic link: remove it`);
    }
    const isObeyed = name === STATE_FOLDER && user !== undefined;
    if (isObeyed && isForeignIn(await Deno.lstat(workspace), info, user)) {
      throw new ConfigError(
        `${path} belongs to another user, who could have made it because others can create files in ` +
          `${workspace}: remove it, and close the workspace to others (chmod go-w)`,
      );
    }
  }
}

/**
 * Finds what sandboxed code must not touch. Only existing paths can be protected: the sandbox would
 * create a missing one on the host. Protected paths cannot be moved, nor can their parent folders,
 * so that they are found again next time.
 *
 * Nothing can keep code from replacing a link in a writable folder. So if a link has a protected
 * name, its folder becomes read-only, and its target is protected as if it had that name.
 */
export async function findProtectedPaths(
  workspace: string,
  options: FindProtectedPathsOptions = {},
): Promise<FoundPaths> {
  const { maxEntries = 1_000_000, writable = true } = options;
  const unreadable: string[] = [];
  const readOnly: string[] = await lstatIfAllowed(SHARED_BY_SANDBOXES) ? [SHARED_BY_SANDBOXES] : [];
  const otherStates: string[] = [];
  let level: Searched[] = [{ folder: workspace, isKept: false }];
  let entries = 0;
  fairTurns.resume();
  for (let depth = 0; depth < MAX_DEPTH && level.length > 0; depth++) {
    const next: Searched[] = [];
    for (const { folder, isKept } of level) {
      const inside: Searched[] = [];
      const names = new Set<string>();
      const lost = new Set<string>();
      for await (const entry of listOr(folder, () => readOnly.push(folder))) {
        await fairTurns.giveWay(); // code can fill folders, which must not delay other sessions
        if (depth > 0 && ++entries > maxEntries) throw tooLarge(workspace, maxEntries);
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
          if (!isKept) readOnly.push(folder);
          const target = await targetIn(workspace, path);
          if (target !== undefined) (guard === "unreadable" ? unreadable : readOnly).push(target);
        } else if (guard === "unreadable") {
          unreadable.push(path);
          if (!isKept && depth > 0 && isState(path)) otherStates.push(path);
        } else {
          const isObeyed = guard === "read-only";
          if (isObeyed && !isKept) readOnly.push(path);
          if (entry.isDirectory && !(isObeyed && UNSEARCHED.has(name))) {
            inside.push({ folder: path, isKept: isKept || isObeyed });
          }
        }
        const found = unreadable.length + readOnly.length;
        if (found > MAX_MOUNTS) throw tooManyMounts([...unreadable, ...readOnly], workspace);
      }
      next.push(...inside);
      if (!isKept && !names.isDisjointFrom(ENVIRONMENTS)) {
        readOnly.push(...depth > 0 ? [folder] : await environmentParts(workspace, names));
      }
    }
    level = next;
  }
  return { unreadable, readOnly, otherStates };
}

/** A folder to search for paths to protect. */
interface Searched {
  readonly folder: string;
  /** Whether it is in one that is read-only as a whole, so that it may only hold secrets. */
  readonly isKept: boolean;
}

/** Whether a path is that of a workspace's `.ipybox`. */
export function isState(path: string): boolean {
  return path.endsWith(`/${STATE_FOLDER}`);
}

/** The protection that a name calls for. */
type Guard = "unreadable" | "read-only";

function guardOf(entry: Deno.DirEntry, isTop: boolean): Guard | undefined {
  const { name, isDirectory } = entry;
  if (name === STATE_FOLDER) return "unreadable";
  if (!isDirectory && isSecret(name)) return "unreadable"; // password managers write to pipes
  return OBEYED.has(name) || (isTop && name === GENERATED) ? "read-only" : undefined;
}

/**
 * Whether a workspace's entry must be left out when the workspace is copied for other code: entries
 * that code must not read, and links that code could replace, which no workspace may have.
 */
export function isUncopied(entry: Deno.DirEntry, isTop: boolean): boolean {
  const guard = guardOf(entry, isTop);
  return guard === "unreadable" || (guard !== undefined && entry.isSymlink);
}

/** Replaces bytes that are not UTF-8, but may also be a character of a name. */
const LOST = "\ufffd";

/** Whether Deno's name for an entry leads to that entry and not to another one. */
async function isSame(entry: Deno.DirEntry, path: string): Promise<boolean> {
  const found = await ifPresent(Deno.lstat(path));
  return found?.isDirectory === entry.isDirectory && found.isSymlink === entry.isSymlink;
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

/** The target of a link in the workspace, if it is in the workspace too. */
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

/** The code of a workspace that is an environment. */
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

function tooLarge(workspace: string, maxEntries: number): ConfigError {
  return new ConfigError(
    `Cannot use ${workspace} as workspace: it has more than ${maxEntries} files and folders in its ` +
      `first ${MAX_DEPTH} levels, too many to search for secrets that code must not see; remove what you do ` +
      "not need, or choose a smaller folder",
  );
}

/** bubblewrap accepts 9000 arguments; a mount takes three, and `srt` itself needs a few hundred. */
export const MAX_MOUNTS = 2800;

/** The number of examples in the error. */
const EXAMPLES = 3;

/** The error for a workspace with more paths to protect than bubblewrap accepts. */
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

/** The deepest folder that contains more than half of the paths. */
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

/**
 * Lists a folder. If this is not permitted, code inside can still change that, because it owns the
 * folder.
 */
async function* listOr(folder: string, denied: () => void): AsyncGenerator<Deno.DirEntry> {
  try {
    yield* Deno.readDir(folder);
  } catch (error) {
    if (error instanceof Deno.errors.PermissionDenied) denied();
    else if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

/** Whether files and folders of this name are hidden from executed code. */
export function isHiddenName(name: string): boolean {
  return name === STATE_FOLDER || isSecret(name);
}

/** Whether files of this name usually contain secrets. */
function isSecret(name: string): boolean {
  return (SECRET_FILES.has(name) || DOTENV.test(name)) && !EXAMPLE.test(name);
}

/** The paths that a workspace has had since before code could first write there. */
interface LastingPaths {
  /** Those of the given files and folders. */
  readonly paths: readonly string[];
  /** The file that records them; `undefined` if there can be none, in which case no path counts. */
  readonly record: string | undefined;
}

/**
 * The file whose presence says that code could write to a workspace, even if the record is
 * elsewhere or the workspace was moved. Code can neither see nor remove it.
 */
export const CODE_NOTE = `${STATE_FOLDER}/code-ran`;

/** Records what a workspace contains before code can write there. */
export async function beginWriting(workspace: string, present: readonly string[]): Promise<void> {
  await lastingPaths(workspace, present);
  await makeNote(join(workspace, CODE_NOTE));
}

/**
 * Creates an empty file. Anything that already exists is enough, such as a link in a workspace from
 * elsewhere.
 */
async function makeNote(path: string): Promise<void> {
  try {
    await Deno.writeTextFile(path, "", { createNew: true, mode: 0o600 });
  } catch (error) {
    if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
  }
}

/**
 * The file whose presence says that the `.env` beside its folder may be executed code's, because
 * there was none when code could first write there. Code can neither see nor remove this file.
 */
export const DOTENV_NOTE = ".ipybox/no-dotenv";

/** Notes that a workspace has no `.env`, before code can write one. */
export async function noteAbsentDotenv(workspace: string): Promise<void> {
  const dotenv = await ifPresent(Deno.lstat(join(workspace, ".env")));
  // A folder, such as an environment, is none either, and code may replace it.
  if (dotenv === undefined || dotenv.isDirectory) await makeNote(join(workspace, DOTENV_NOTE));
}

const recordSchema = z.object({
  /** The workspace's identity, since another folder may take its place. */
  workspace: z.string(),
  /** The identities of what was there, by path in the workspace. */
  paths: z.record(z.string(), z.string()),
});

type Entries = z.infer<typeof recordSchema>;

/**
 * Finds what code never could write to. Names prove nothing: a sandbox protects what exists when it
 * starts, so anything that appears or is recreated while code runs may belong to the code, in later
 * sessions too.
 *
 * So each sandbox that may write to a workspace, and each check before the first one, leaves a
 * record in the user's state folder, which code cannot reach. The record can only shrink.
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
    const note = await lstatIfAllowed(join(workspace, CODE_NOTE));
    const known = await readRecord(record, identity) ?? (note && {});
    const lasting = now.filter(([path, identity]) =>
      known === undefined || (Object.hasOwn(known, path) && known[path] === identity)
    );
    if (known === undefined || lasting.length < Object.keys(known).length) {
      const entries: Entries = { workspace: identity, paths: Object.fromEntries(lasting) };
      await replaceFile(record, JSON.stringify(entries, null, 2) + "\n");
    }
    return { paths: lasting.map(([path]) => join(workspace, path)), record };
  } catch (error) {
    if (isUnwritable(error)) return { paths: [], record: undefined };
    throw error;
  }
}

/** Deletes the record of a workspace that no longer exists. */
export async function forgetWorkspace(workspace: string): Promise<void> {
  const record = recordOf(workspace);
  if (record === undefined || await lstatIfAllowed(workspace)) return;
  try {
    using _lock = await lockUserFolder(dirname(record));
    await ifPresent(Deno.remove(record));
  } catch (error) {
    if (!isUnwritable(error)) throw error;
  }
}

/** The path of a workspace's record; `undefined` if there can be none. */
function recordOf(workspace: string): string | undefined {
  const folder = usableState("protected");
  return folder && join(folder, `${sha256(workspace).slice(0, 32)}.json`);
}

/**
 * Distinguishes a file or folder from another one in its place. An inode may be reused, but not
 * with the same birth time, which no program can set on Linux; macOS does not reuse inodes.
 */
async function identityOf(path: string): Promise<string | undefined> {
  const { ino = null, birthtime = null } = await ifPresent(Deno.lstat(path)) ?? {};
  return ino === null || birthtime === null ? undefined : `${ino} ${birthtime.toISOString()}`;
}

/** The recorded paths of a workspace; `undefined` if there is no record of this very folder. */
async function readRecord(path: string, workspace: string): Promise<Entries["paths"] | undefined> {
  const text = await ifPresent(Deno.readTextFile(path));
  if (text === undefined) return undefined;
  try {
    const entries = recordSchema.parse(JSON.parse(text));
    return entries.workspace === workspace ? entries.paths : undefined;
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof z.ZodError) return {}; // damaged
    throw error;
  }
}
