import { ConfigError } from "../errors.ts";

/** What in a workspace sandboxed code must not touch. All of these exist. */
export interface ProtectedPaths {
  /** Neither to be read nor written: the host's own state, and secrets. */
  readonly unreadable: readonly string[];
  /** To be read only: what the host or another program would run or obey. */
  readonly readOnly: readonly string[];
}

/** How far {@linkcode findProtectedPaths} looks. */
export interface FindProtectedPathsOptions {
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
}

/** The folders of ours, which are made so that code inside cannot make them. */
const OWN_STATE = ".ipybox";
const GENERATED = "mcptools";

/** `srt` lets every sandbox of this user write there: their common place to meet. */
export const SHARED_BY_SANDBOXES = "/tmp/claude";

const SECRET = /^\.env(\..*)?$|^\.npmrc$|^\.pypirc$|^\.netrc$/;
const EXAMPLE = /\.(example|sample|template)$/;

const OBEYED: ReadonlySet<string> = new Set([
  ".bash_profile",
  ".bashrc",
  ".claude",
  ".cursor",
  ".devcontainer",
  ".envrc",
  ".git",
  ".gitconfig",
  ".github",
  ".gitmodules",
  ".husky",
  ".idea",
  ".mcp.json",
  ".pre-commit-config.yaml",
  ".profile",
  ".venv",
  ".vscode",
  ".zshrc",
  "node_modules",
  "venv",
]);

/** What makes a folder a virtual environment of Python, whatever its name. */
const ENVIRONMENT = "pyvenv.cfg";
/** What in it is run; of a workspace that is an environment itself, no more than that is protected. */
const ENVIRONMENT_PARTS = ["bin", "lib", "lib64", "Scripts", "Lib", ENVIRONMENT];

/**
 * Makes the folders of a workspace that the host relies on, so that sandboxed code cannot make
 * them first.
 *
 * @param workspace The workspace, without symbolic links in its path.
 * @throws {ConfigError} One of them is a symbolic link or a file.
 */
export async function makeOwnFolders(workspace: string): Promise<void> {
  for (const [name, mode] of [[OWN_STATE, 0o700], [GENERATED, 0o755]] as const) {
    const path = `${workspace}/${name}`;
    try {
      await Deno.mkdir(path, { mode });
    } catch (error) {
      if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
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
 * @param workspace The workspace, without symbolic links in its path.
 * @param options How far to look.
 * @returns The paths.
 * @throws {ConfigError} There are too many entries to look at. Nothing is left out silently, as code
 * could fill the workspace so that its protected parts are not reached.
 */
export async function findProtectedPaths(
  workspace: string,
  options: FindProtectedPathsOptions = {},
): Promise<ProtectedPaths> {
  const { maxDepth = 4, maxEntries = 1_000_000 } = options;
  const unreadable: string[] = [];
  const readOnly: string[] = await exists(SHARED_BY_SANDBOXES) ? [SHARED_BY_SANDBOXES] : [];
  let level = [workspace];
  let entries = 0;
  for (let depth = 0; depth < maxDepth && level.length > 0; depth++) {
    const next: string[] = [];
    for (const folder of level) {
      const inside: string[] = [];
      let isEnvironment = false;
      for await (const entry of listOr(folder, () => readOnly.push(folder))) {
        if (depth > 0 && ++entries > maxEntries) throw tooLarge(workspace, maxEntries, maxDepth);
        // A link is not followed: what it leads to is protected by where it is.
        if (entry.isSymlink) continue;
        const path = `${folder}/${entry.name}`;
        if (depth === 0 && entry.name === OWN_STATE) unreadable.push(path);
        else if (depth === 0 && entry.name === GENERATED) readOnly.push(path);
        else if (entry.isFile && SECRET.test(entry.name) && !EXAMPLE.test(entry.name)) {
          unreadable.push(path);
        } else if (OBEYED.has(entry.name)) readOnly.push(path);
        else if (entry.isDirectory) inside.push(path);
        else if (entry.name === ENVIRONMENT) isEnvironment = true;
      }
      next.push(...inside);
      if (isEnvironment && depth > 0) readOnly.push(folder);
      else if (isEnvironment) readOnly.push(...await present(workspace, ENVIRONMENT_PARTS));
    }
    level = next;
  }
  return { unreadable, readOnly };
}

function tooLarge(workspace: string, maxEntries: number, maxDepth: number): ConfigError {
  return new ConfigError(
    `Cannot use ${workspace} as workspace: it has more than ${maxEntries} files and folders in its ` +
      `first ${maxDepth} levels, too many to look for secrets that code must not see; remove what is ` +
      "not needed, or choose a smaller folder",
  );
}

async function present(folder: string, names: readonly string[]): Promise<string[]> {
  const found = await Promise.all(
    names.map(async (name) => await exists(`${folder}/${name}`) ? [`${folder}/${name}`] : []),
  );
  return found.flat();
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
  return await Deno.lstat(path).then(() => true, () => false);
}

/** Whether a file or folder of this name is out of the sight of executed code. */
export function isHiddenName(name: string): boolean {
  return name === OWN_STATE || SECRET.test(name) && !EXAMPLE.test(name);
}
