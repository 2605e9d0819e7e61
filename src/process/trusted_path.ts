import { delimiter, dirname, isAbsolute, join, relative, resolve } from "node:path";
import { ConfigError } from "../base/errors.ts";
import { hostEnv, isGranted, mayRead } from "../base/permission.ts";

/**
 * Removes folders from a search path that anyone besides this user and the system can write to. Package
 * runners prepend such folders, as `npx` does with the working directory's `node_modules/.bin`.
 */
export async function trustedPath(
  path: string,
  untrusted: readonly string[] = [],
): Promise<string> {
  const trust = await PathTrust.create(untrusted);
  const folders = path.split(delimiter);
  const reasons = await Promise.all(folders.map((folder) => trust.whyNotSearched(folder)));
  return folders.filter((_, index) => reasons[index] === undefined).join(delimiter);
}

/**
 * Whether a path is a folder or in it, after normalizing dots and slashes. Ignores symbolic links.
 */
export function isInside(path: string, folder: string): boolean {
  const below = relative(resolve(folder), resolve(path));
  return below === "" || (below !== ".." && !below.startsWith("../") && !isAbsolute(below));
}

/** The folder that identifies a workspace, during and after its sessions. Code cannot remove it. */
const WORKSPACE_STATE = ".ipybox";

/** The owner of what belongs to nobody in this user namespace. */
const OVERFLOW_ID = 65_534;

/** As many links as Linux follows. */
const MAX_LINKS = 40;

/** Finds the parts of paths that anyone besides this user and the system can change. */
export class PathTrust {
  readonly #untrusted: readonly string[];
  readonly #home: string | undefined = hostEnv("HOME");
  readonly #user: number | undefined;
  readonly #trustsGroups: boolean;
  readonly #known = new Map<string, Promise<string | undefined>>();

  private constructor(
    untrusted: readonly string[],
    user: number | undefined,
    trustsGroups: boolean = true,
  ) {
    this.#untrusted = untrusted;
    this.#user = user;
    this.#trustsGroups = trustsGroups;
  }

  static async create(
    untrusted: readonly string[] = [],
    user: number | undefined = ownId(),
  ): Promise<PathTrust> {
    const real = await Promise.all(untrusted.map(realPathIfSeen));
    return new PathTrust([...new Set([...untrusted, ...real])], user);
  }

  /** Whether a folder of a search path can be searched. */
  async whyNotSearched(folder: string): Promise<string | undefined> {
    if (!isAbsolute(folder)) return "it depends on the current folder";
    if (/\/node_modules\/\.bin(\/|$)/.test(resolve(folder))) {
      return `${folder} belongs to a project`;
    }
    const reason = this.#whyCode(folder) ?? await this.whyShared(folder);
    if (reason !== undefined) return reason;
    // In such a folder, nobody can replace an existing file, but everybody can add new ones.
    const mode = (await look(await realPathIfSeen(folder)))?.mode ?? 0;
    return (mode & 0o002) !== 0 ? `other users can write to ${folder}` : undefined;
  }

  /** Follows a path, link by link, through every folder that decides where it leads. */
  async whyShared(path: string): Promise<string | undefined> {
    const names = path.split("/");
    let [at, links] = ["/", 0];
    for (let name = names.shift(); name !== undefined; name = names.shift()) {
      if (name === "" || name === ".") continue;
      if (name === "..") {
        at = dirname(at);
        continue;
      }
      const reason = await (this.#known.get(at) ?? this.#remember(at));
      if (reason !== undefined) return reason;
      const next = join(at, name);
      const info = await look(next);
      if (info === undefined) return this.#whyCode(next); // not there, so it leads nowhere
      if (isForeignIn(await look(at), info, this.#user)) return `${next} belongs to another user`;
      if (!info.isSymlink) {
        at = next;
        continue;
      }
      if (++links > MAX_LINKS) return `${path} is an endless chain of symbolic links`;
      const target = await Deno.readLink(next);
      names.unshift(...target.split("/"));
      if (target.startsWith("/")) at = "/";
    }
    const info = await look(at);
    if (info?.isDirectory) return await this.#remember(at);
    return info !== undefined && this.#isWritable(info)
      ? `other users can write to ${at}`
      : undefined;
  }

  /** Why others could replace what this user keeps at a path: those above, and who owns what leads there. */
  async whyReplaceable(path: string): Promise<string | undefined> {
    const strict = new PathTrust(this.#untrusted, this.#user, false);
    const reason = await strict.whyShared(path);
    if (reason !== undefined) return reason;
    for (const way of new Set([path, await realPathIfSeen(path)])) {
      for (let [folder, inner] = [dirname(way), way]; folder !== inner;) {
        const info = await look(folder);
        if (info !== undefined && info.uid !== OVERFLOW_ID && !this.#isOwn(info)) {
          return `${folder} belongs to another user`;
        }
        [folder, inner] = [dirname(folder), folder];
      }
    }
    return undefined;
  }

  #remember(folder: string): Promise<string | undefined> {
    const reason = this.#whyFolder(folder);
    this.#known.set(folder, reason);
    return reason;
  }

  async #whyFolder(folder: string): Promise<string | undefined> {
    const info = await look(folder);
    const byCode = this.#whyCode(folder) ?? await this.#whyWorkspace(folder);
    if (byCode !== undefined || info === undefined) return byCode;
    const isSticky = ((info.mode ?? 0) & 0o1000) !== 0;
    return !isSticky && this.#isWritable(info) ? `other users can write to ${folder}` : undefined;
  }

  #isWritable(info: Deno.FileInfo): boolean {
    if (!this.#isOwn(info)) return ((info.mode ?? 0) & 0o022) !== 0;
    // Programs may be in folders of groups that root or this user chose, such as staff or admin.
    if (this.#trustsGroups) return ((info.mode ?? 0) & 0o002) !== 0;
    return isOpen(info, this.#user);
  }

  #whyCode(path: string): string | undefined {
    const folder = this.#untrusted.find((root) => isInside(path, root));
    return folder && `executed code can write to ${folder}`;
  }

  /**
   * Workspaces of other and earlier sessions count. Home never counts, nor does another user's claim,
   * which could otherwise block `/tmp` for everyone.
   */
  async #whyWorkspace(folder: string): Promise<string | undefined> {
    if (folder === "/" || (this.#home !== undefined && isInside(this.#home, folder))) {
      return undefined;
    }
    const state = await look(join(folder, WORKSPACE_STATE));
    const isWorkspace = state?.isDirectory && (this.#user === undefined || this.#isOwn(state));
    return isWorkspace
      ? `executed code can write to ${folder}, a workspace because of ${
        join(folder, WORKSPACE_STATE)
      }`
      : undefined;
  }

  #isOwn(info: Deno.FileInfo): boolean {
    return isTrustedOwner(info, this.#user);
  }
}

function isTrustedOwner({ uid }: Deno.FileInfo, user: number | undefined): boolean {
  return uid === null || uid === 0 || uid === user;
}

/** Whether others can write: a group counts, but for root's and the user's own, which has the user's number. */
export function isOpen({ mode, gid }: Deno.FileInfo, user: number | undefined): boolean {
  const isOpenToGroup = ((mode ?? 0) & 0o020) !== 0 && gid !== 0 && gid !== user;
  return ((mode ?? 0) & 0o002) !== 0 || isOpenToGroup;
}

/**
 * What others have put on the way to a path of this user's, where everybody or a group can create files:
 * what is found there may be theirs. Folders above that belong to others, as in containers, do not count.
 */
export function foreignOn(path: string): string | undefined {
  const user = ownId();
  if (user === undefined) return undefined; // it cannot be told
  const pending = names(path);
  let [at, links] = ["/", 0];
  for (let name = pending.shift(); name !== undefined; name = pending.shift()) {
    if (name === "..") {
      at = dirname(at);
      continue;
    }
    const next = join(at, name);
    if (!mayRead(next)) { // what is below may be readable
      at = next;
      continue;
    }
    const info = lookSync(next);
    if (info === undefined) return undefined; // nobody has made it
    if (isForeignIn(lookSync(at), info, user)) return next;
    if (!info.isSymlink) {
      at = next;
      continue;
    }
    if (++links > MAX_LINKS) return undefined; // it leads nowhere
    const target = Deno.readLinkSync(next);
    if (isAbsolute(target)) at = "/";
    pending.unshift(...names(target));
  }
  return undefined;
}

/** Whether another user may have put an entry in a folder without owning that, as in `/tmp` or a team's. */
export function isForeignIn(
  folder: Deno.FileInfo | undefined,
  entry: Deno.FileInfo,
  user: number | undefined,
): boolean {
  const mode = folder?.mode ?? 0;
  const isOpen = (mode & 0o002) !== 0 || ((mode & 0o020) !== 0 && entry.uid !== folder?.uid);
  return isOpen && !isTrustedOwner(entry, user);
}

function lookSync(path: string): Deno.FileInfo | undefined {
  if (!mayRead(path)) return undefined;
  try {
    return Deno.lstatSync(path);
  } catch (error) {
    if (isUnseen(error)) return undefined;
    throw error;
  }
}

/** The file at a path; `undefined` if there is none or Deno's permissions do not allow looking. */
async function look(path: string): Promise<Deno.FileInfo | undefined> {
  if (!mayRead(path)) return undefined;
  try {
    return await Deno.lstat(path);
  } catch (error) {
    const isUnseen = error instanceof Deno.errors.NotFound ||
      error instanceof Deno.errors.NotADirectory || error instanceof Deno.errors.PermissionDenied;
    if (isUnseen) return undefined;
    throw error;
  }
}

/** Where a path leads. */
export async function realPathIfSeen(path: string): Promise<string> {
  if (!mayRead(path)) return path;
  return await Deno.realPath(path).catch(() => path); // not there, so it leads nowhere
}

/** The number of the user; `undefined` where that cannot be told. */
export function ownId(): number | undefined {
  return isGranted({ name: "sys", kind: "uid" }) ? Deno.uid() ?? undefined : undefined;
}

/** The workspace and the purpose of a path. */
interface ReliablePathOptions {
  /** The workspace. */
  readonly workspace: string;
  /** The purpose of the path for errors, such as `sandbox settings`. */
  readonly what: string;
  /**
   * The files and folders of the workspace that code cannot change in any session, without links in
   * their paths. A path may lead through these, including links in them.
   *
   * @default {undefined} the path itself, as this session protects it, and `.ipybox`
   */
  readonly anchors?: readonly string[];
}

/** A step on the way to a file, without links above it. */
interface Step {
  readonly path: string;
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
  const workspace = await realOr(resolve(options.workspace));
  const { steps, real } = await follow(resolve(path), options.workspace, workspace);
  const anchors = options.anchors ?? [real, ...stateOf(workspace)];
  const loose = steps.filter((step) => isLoose(step, workspace, anchors));
  const bad = loose.find(({ isLink }) => isLink) ?? loose[0];
  if (bad === undefined) return real;
  throw new ConfigError(
    bad.isLink
      ? `Cannot use ${path} as ${options.what}: ${bad.path} is a symbolic link in the workspace, ` +
        `which executed code could replace. Use its target, ${real}, or replace it with a copy`
      : `Cannot use ${path} as ${options.what}: executed code could replace ${bad.path}. Use one ` +
        "outside the workspace, or in a virtual environment that existed before code first ran",
  );
}

/**
 * Whether code in a workspace could change a file or its path's target: the path leads through the
 * workspace, but not through `.ipybox`.
 */
export async function isInReach(path: string, folder: string): Promise<boolean> {
  const workspace = await realOr(resolve(folder));
  const { steps } = await follow(resolve(path), folder, workspace);
  return steps.some((step) => isLoose(step, workspace, stateOf(workspace)));
}

/**
 * The folder of a workspace for files that the host relies on. A session over HTTP, whose folder is in
 * that of its workspace, has none: only its code, and servers that code calls, create files there.
 */
export function stateOf(workspace: string): readonly string[] {
  const isSession = resolve(workspace).split("/").includes(WORKSPACE_STATE);
  return isSession ? [] : [join(workspace, WORKSPACE_STATE)];
}

function isLoose({ path, isLink }: Step, workspace: string, anchors: readonly string[]): boolean {
  if (path === workspace || !isInside(path, workspace)) return false;
  return !anchors.some((anchor) => isInside(anchor, path) ? !isLink : isInside(path, anchor) // above the anchor, or in it
  );
}

/** Every file and folder on the way to a path, link by link: who can replace one decides where it leads. */
export async function pathsOnWay(path: string): Promise<string[]> {
  const { steps } = await follow(resolve(path));
  return steps.map((step) => step.path);
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
    steps.push({ path: next, isLink: target !== undefined });
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

async function realOr(path: string): Promise<string> {
  try {
    return await Deno.realPath(path);
  } catch (error) {
    if (isUnseen(error)) return path;
    throw error;
  }
}

function isUnseen(error: unknown): boolean {
  const { NotADirectory, NotCapable, NotFound, PermissionDenied } = Deno.errors;
  return [NotADirectory, NotCapable, NotFound, PermissionDenied]
    .some((unseen) => error instanceof unseen);
}
