import { delimiter, dirname, isAbsolute, join, relative, resolve } from "node:path";
import { hostEnv } from "./host_env.ts";
import { isGranted, mayRead } from "./permission.ts";

/**
 * Leaves out of a search path what others than this user and the system may write to. Package runners
 * put such folders in front, as `npx` does with the working directory's `node_modules/.bin`.
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
 * Whether a path is a folder or in it, whatever dots and slashes they are written with. Symbolic links
 * are not looked at.
 */
export function isInside(path: string, folder: string): boolean {
  const below = relative(resolve(folder), resolve(path));
  return below === "" || (below !== ".." && !below.startsWith("../") && !isAbsolute(below));
}

/** The folder by which a workspace is known, now and after its sessions. Code cannot remove it. */
const WORKSPACE_STATE = ".ipybox";

/** Like the kernel's own bound for links that lead to links. */
const MAX_LINKS = 40;

/** Finds out what of paths others than this user and the system can change. */
export class PathTrust {
  readonly #untrusted: readonly string[];
  readonly #home: string | undefined = hostEnv("HOME");
  readonly #user: number | undefined;
  readonly #known = new Map<string, Promise<string | undefined>>();

  private constructor(untrusted: readonly string[], user: number | undefined) {
    this.#untrusted = untrusted;
    this.#user = user;
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
    // In such a folder, nobody can change what is there, but everybody can add what is not.
    const mode = (await lookThrough(folder))?.mode ?? 0;
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
      if (await this.#isForeignInSticky(at, info)) return `${next} belongs to another user`;
      if (!info.isSymlink) {
        at = next;
        continue;
      }
      if (++links > MAX_LINKS) return `${path} is a chain of links without an end`;
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
    const mode = info.mode ?? 0;
    // A group that root or this user let in is theirs to choose: staff, admin, a group of one.
    return (mode & 0o002) !== 0 || ((mode & 0o020) !== 0 && !this.#isOwn(info));
  }

  #whyCode(path: string): string | undefined {
    const folder = this.#untrusted.find((root) => isInside(path, root));
    return folder && `executed code can write to ${folder}`;
  }

  /**
   * A workspace of another session, or of an earlier one, is one too. Home never is, and what another
   * user calls one would take `/tmp` from all.
   */
  async #whyWorkspace(folder: string): Promise<string | undefined> {
    if (folder === "/" || (this.#home !== undefined && isInside(this.#home, folder))) {
      return undefined;
    }
    const state = await look(join(folder, WORKSPACE_STATE));
    const isWorkspace = state?.isDirectory && (this.#user === undefined || this.#isOwn(state));
    return isWorkspace ? `executed code can write to ${folder}` : undefined;
  }

  /** In a folder such as `/tmp` everybody can make a name, and nobody can take another's away. */
  async #isForeignInSticky(folder: string, entry: Deno.FileInfo): Promise<boolean> {
    const mode = (await look(folder))?.mode ?? 0;
    return (mode & 0o1002) === 0o1002 && !this.#isOwn(entry);
  }

  #isOwn({ uid }: Deno.FileInfo): boolean {
    return uid === null || uid === 0 || uid === this.#user;
  }
}

/** What is at a path; `undefined` where nothing is or Deno's permissions do not let one look. */
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

async function lookThrough(path: string): Promise<Deno.FileInfo | undefined> {
  const real = await realPathIfSeen(path);
  return await look(real);
}

/** Where a path leads. */
export async function realPathIfSeen(path: string): Promise<string> {
  if (!mayRead(path)) return path;
  return await Deno.realPath(path).catch(() => path); // not there, so it leads nowhere
}

function ownId(): number | undefined {
  return isGranted({ name: "sys", kind: "uid" }) ? Deno.uid() ?? undefined : undefined;
}
