import { dirname, isAbsolute, join, resolve } from "node:path";
import { ConfigError } from "../errors.ts";
import { mayRead } from "./permission.ts";
import { isInside } from "./trusted_path.ts";

/** Where executed code writes, and what the path is. */
export interface ReliablePathOptions {
  /** The workspace. */
  readonly workspace: string;
  /** What the path is, for errors, such as `sandbox settings`. */
  readonly what: string;
  /**
   * The files and folders of the workspace that no session lets code change, without links in their
   * paths. The way may lead through these, links in them included.
   *
   * @default {undefined} the path itself, as this session protects it, and `.ipybox`
   */
  readonly anchors?: readonly string[] | undefined;
}

/** A place that the system passes on the way to a file, without links above it. */
interface Step {
  readonly path: string;
  readonly isLink: boolean;
}

/** A path as the system follows it. */
interface Way {
  readonly steps: readonly Step[];
  readonly real: string;
}

/** As many links as Linux follows. */
const MAX_LINKS = 40;

/**
 * Follows a path that the host relies on: a program it runs, settings it obeys. A link in the workspace
 * is refused, because executed code could put something else in its place.
 */
export async function reliablePath(path: string, options: ReliablePathOptions): Promise<string> {
  const workspace = await realOr(resolve(options.workspace));
  const { steps, real } = await follow(resolve(path), options.workspace, workspace);
  const anchors = options.anchors ?? [real, join(workspace, ".ipybox")];
  const loose = steps.filter((step) => isLoose(step, workspace, anchors));
  const bad = loose.find(({ isLink }) => isLink) ?? loose[0];
  if (bad === undefined) return real;
  throw new ConfigError(
    bad.isLink
      ? `Cannot use ${path} as ${options.what}: ${bad.path} is a symbolic link in the workspace, ` +
        `which executed code could replace. Name what it leads to, ${real}, or put a copy in its place`
      : `Cannot use ${path} as ${options.what}: executed code could replace ${bad.path}. Use one ` +
        "outside of the workspace, or in a virtual environment that was there before code ran",
  );
}

/**
 * Whether code that works in a workspace could change a file, or where its path leads: the way to it
 * passes through the workspace, and not through `.ipybox`.
 */
export async function isInReach(path: string, folder: string): Promise<boolean> {
  const workspace = await realOr(resolve(folder));
  const { steps } = await follow(resolve(path), folder, workspace);
  const state = [join(workspace, ".ipybox")];
  return steps.some((step) => isLoose(step, workspace, state));
}

function isLoose({ path, isLink }: Step, workspace: string, anchors: readonly string[]): boolean {
  if (path === workspace || !isInside(path, workspace)) return false;
  return !anchors.some((anchor) => isInside(anchor, path) ? !isLink : isInside(path, anchor) // above the anchor, or in it
  );
}

/** Follows an absolute path, from the workspace's real path where it is written with the workspace's. */
async function follow(path: string, written: string, workspace: string): Promise<Way> {
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

/** What a link leads to; `undefined` for what is no link, is not there, or may not be looked at. */
async function linkTarget(path: string): Promise<string | undefined> {
  const status = await lstatIfAllowed(path);
  return status?.isSymlink ? await Deno.readLink(path) : undefined;
}

/**
 * Looks at a place above a workspace, which permissions may close, without asking a person for them.
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
