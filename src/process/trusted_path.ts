import { delimiter, dirname, isAbsolute, join, relative, resolve } from "node:path";
import { ConfigError } from "../base/errors.ts";
import { hostEnv, isGranted, mayRead } from "../base/permission.ts";

/**
 * Removes folders from a search path that executed code can write to, or that only the current folder or a
 * project puts there, as `npx` does with the working directory's `node_modules/.bin`.
 */
export async function trustedPath(
  path: string,
  untrusted: readonly string[] = [],
): Promise<string> {
  const folders = path.split(delimiter);
  const reasons = await Promise.all(folders.map((folder) => whyNotSearched(folder, untrusted)));
  return folders.filter((_, index) => reasons[index] === undefined).join(delimiter);
}

/** Why a folder of a search path is skipped: it is relative, a project's, a workspace's or everybody's. */
export async function whyNotSearched(
  folder: string,
  untrusted: readonly string[] = [],
): Promise<string | undefined> {
  if (!isAbsolute(folder)) return "it depends on the current folder";
  if (/\/node_modules\/\.bin(\/|$)/.test(resolve(folder))) return `${folder} belongs to a project`;
  const reason = await whyCode(folder, untrusted);
  if (reason !== undefined) return reason;
  const mode = (await lstatIfAllowed(await realPathIfSeen(folder)))?.mode ?? 0;
  return (mode & 0o002) !== 0 ? `everybody can write to ${folder}` : undefined;
}

/** Why executed code could decide where a path leads: a step on its way is in a workspace. */
export async function whyCode(
  path: string,
  untrusted: readonly string[] = [],
): Promise<string | undefined> {
  const real = await Promise.all(untrusted.map(realPathIfSeen));
  const way = await wayTo(path).catch((error: unknown) => {
    if (error instanceof ConfigError) return error.message; // an endless chain of links
    throw error;
  });
  if (typeof way === "string") return way;
  for (const { path } of way.steps) {
    const folder = [...untrusted, ...real].find((root) => isInside(path, root)) ??
      (await isWorkspace(path) ? path : undefined);
    if (folder !== undefined) return `executed code can write to ${folder}`;
  }
  return undefined;
}

/** Whether a folder is the workspace of any session. One around the home directory never counts. */
export async function isWorkspace(folder: string): Promise<boolean> {
  const home = hostEnv("HOME");
  if (home !== undefined && isInside(home, folder)) return false;
  const path = join(folder, STATE_FOLDER);
  if (!mayRead(path)) return false;
  try {
    await Deno.lstat(path);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.PermissionDenied) return true; // code can close its folder for a moment
    if (isUnseen(error)) return false;
    throw error;
  }
}

/**
 * Whether a path is a folder or in it, after normalizing dots and slashes. Ignores symbolic links.
 */
export function isInside(path: string, folder: string): boolean {
  const below = relative(resolve(folder), resolve(path));
  return below === "" || (below !== ".." && !below.startsWith("../") && !isAbsolute(below));
}

/** The folder that identifies a workspace, during and after its sessions. Code cannot remove it. */
export const STATE_FOLDER = ".ipybox";

/** As many links as Linux follows. */
const MAX_LINKS = 40;

/** The real path; `path` itself if that cannot be determined. */
export async function realPathIfSeen(path: string): Promise<string> {
  if (!mayRead(path)) return path;
  return await Deno.realPath(path).catch(() => path); // it does not exist
}

/** The user's id; `undefined` where it is unknown. */
export function ownId(): number | undefined {
  return isGranted({ name: "sys", kind: "uid" }) ? Deno.uid() ?? undefined : undefined;
}

/** The workspace and the purpose of a path. */
interface ReliablePathOptions {
  /** The workspace. */
  readonly workspace: string;
  /** The purpose of the path for errors, such as `sandbox settings`. */
  readonly what: string;
}

/** A step on the way to a file, without links above it. Replacing one changes where the way leads. */
export interface Step {
  readonly path: string;
  /** The file's path from here on, before links that are in it are followed. */
  readonly named: string;
  readonly isLink: boolean;
}

/** A path as the system follows it. */
interface Way {
  readonly steps: readonly Step[];
  readonly real: string;
}

/**
 * Follows a path that the host relies on, such as a program or settings. Refuses links in the
 * workspace, because executed code could replace them.
 */
export async function reliablePath(path: string, options: ReliablePathOptions): Promise<string> {
  const workspace = await realPathIfSeen(resolve(options.workspace));
  const { steps, real } = await follow(resolve(path), options.workspace, workspace);
  const anchors = [real, stateOf(workspace)]; // this session protects the path itself
  const loose = steps.filter((step) => isLoose(step, workspace, anchors));
  const bad = loose.find(({ isLink }) => isLink) ?? loose[0];
  if (bad === undefined) return real;
  if (bad.isLink) throw linkError(path, { what: options.what, link: bad.path, real });
  throw new ConfigError(
    `Cannot use ${path} as ${options.what}: executed code could replace ${bad.path}. Use one outside ` +
      "the workspace",
  );
}

/** Creates the error for a path that leads through a link that code could replace. */
export function linkError(
  path: string,
  { what, link, real }: { readonly what: string; readonly link: string; readonly real: string },
): ConfigError {
  return new ConfigError(
    `Cannot use ${path} as ${what}: ${link} is a symbolic link in the workspace, which executed code could ` +
      `replace. Use its target, ${real}, or replace it with a copy`,
  );
}

/** The folder of a workspace for files that the host relies on. */
export function stateOf(workspace: string): string {
  return join(workspace, STATE_FOLDER);
}

/** Whether code in a workspace (a real path) could replace a step: one in it, but not in `.ipybox`. */
export function isLoose(
  { path, isLink }: Step,
  workspace: string,
  anchors: readonly string[] = [stateOf(workspace)],
): boolean {
  if (path === workspace || !isInside(path, workspace)) return false;
  return !anchors.some((anchor) => isInside(anchor, path) ? !isLink : isInside(path, anchor) // above the anchor, or in it
  );
}

/** The steps on the way to a path, and where it leads. */
export async function wayTo(path: string): Promise<Way> {
  return await follow(resolve(path));
}

/** The workspaces that a way leads through, by their real paths: their code may decide where it leads. */
export async function workspacesOn(
  steps: readonly Step[],
  known: readonly (string | undefined)[] = [],
): Promise<string[]> {
  const found = new Set<string>();
  for (const folder of new Set(steps.map(({ path }) => dirname(path)))) {
    if (known.includes(folder) || await isWorkspace(folder)) found.add(folder);
  }
  return [...found];
}

/** Follows an absolute path. A path in the workspace starts at the workspace's real path. */
async function follow(path: string, written = "/", workspace = "/"): Promise<Way> {
  const steps: Step[] = [];
  const base = [resolve(written), workspace].find((base) => isInside(path, base));
  const pending = names(base === undefined ? path : path.slice(resolve(base).length));
  let real = base === undefined ? "/" : workspace;
  let links = 0;
  for (let name = pending.shift(); name !== undefined; name = pending.shift()) {
    if (name === "..") {
      real = dirname(real);
      continue;
    }
    const next = join(real, name);
    const target = await linkTarget(next);
    steps.push({ path: next, named: join(next, ...pending), isLink: target !== undefined });
    if (target === undefined) {
      real = next;
      continue;
    }
    if (++links > MAX_LINKS) throw new ConfigError(`Cannot use ${path}: too many symbolic links`);
    if (isAbsolute(target)) real = "/";
    pending.unshift(...names(target));
  }
  return { steps, real };
}

function names(path: string): string[] {
  return path.split("/").filter((name) => name !== "" && name !== ".");
}

/** The target of a link; `undefined` if the path is not a link, is missing or cannot be read. */
async function linkTarget(path: string): Promise<string | undefined> {
  const status = await lstatIfAllowed(path);
  return status?.isSymlink ? await Deno.readLink(path) : undefined;
}

/**
 * Looks at a folder above a workspace, if permissions allow it, without prompting the user.
 */
export async function lstatIfAllowed(path: string): Promise<Deno.FileInfo | undefined> {
  if (!mayRead(path)) return undefined;
  try {
    return await Deno.lstat(path);
  } catch (error) {
    if (isUnseen(error)) return undefined;
    throw error;
  }
}

function isUnseen(error: unknown): boolean {
  const { NotADirectory, NotCapable, NotFound, PermissionDenied } = Deno.errors;
  return [NotADirectory, NotCapable, NotFound, PermissionDenied]
    .some((unseen) => error instanceof unseen);
}
