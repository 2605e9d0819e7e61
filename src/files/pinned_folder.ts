/**
 * Holds a workspace's folder open during a write, so that the write cannot land elsewhere: another
 * user who owns the workspace, or code of a workspace around it, could replace the folder by a link
 * at any time.
 *
 * @module
 */
import { closeSync, constants, openSync, readlinkSync } from "node:fs";
import { type FileHandle, mkdir, open, readlink } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { ConfigError } from "../base/errors.ts";
import { codeOf } from "../base/message_of.ts";
import { isAllGranted } from "../base/permission.ts";

/** Node does not export this flag, which also opens folders that cannot be listed. */
const O_PATH = 0o10000000;
const FLAGS = O_PATH | constants.O_DIRECTORY | constants.O_NOFOLLOW;

/** Options for pinning a folder. */
interface PinOptions {
  /** The permissions of a created folder. @default {0o700} */
  readonly mode?: number;
  /** Whether to create a missing folder. @default {true} */
  readonly create?: boolean;
}

/** Folders whose paths contained no links when they were first used. */
const settled = new Set<string>();

/** Records a path without links: from now on, no links are followed on it or below it. */
export function settlePath(path: string): void {
  if (!isSettled(path)) settled.add(path);
}

/** Whether no links are followed on a path: see {@linkcode settlePath}. */
export function isSettled(path: string): boolean {
  if (settled.has(path)) return true;
  const above = dirname(path);
  return above !== path && isSettled(above);
}

/** A folder that stays the same even if its path is replaced. */
export class PinnedFolder implements AsyncDisposable {
  /** A path that leads to the folder until this is disposed of. */
  readonly path: string;
  readonly #shown: string;
  readonly #handle: FileHandle | undefined;

  private constructor(shown: string, handle?: FileHandle) {
    this.#shown = shown;
    this.#handle = handle;
    // The dot ensures that the path itself is not a link.
    this.path = handle === undefined ? shown : `/proc/self/fd/${handle.fd}/.`;
  }

  /** Opens a folder, which must not be a link; only on Linux and with all permissions it is held open. */
  static async open(folder: string, options: PinOptions = {}): Promise<PinnedFolder> {
    const path = resolve(folder);
    if (!canPin()) {
      return await new PinnedFolder(dirname(path)).child(basename(path), options);
    }
    const above = isSettled(path) ? dirname(path) : await Deno.realPath(dirname(path));
    await using parent = new PinnedFolder(above, await openPlain(above, above));
    if (await readlink(parent.path.slice(0, -2)) !== above) throw notPlain(above);
    return await parent.child(basename(path), options);
  }

  /** Opens a subfolder. */
  async child(name: string, { mode = 0o700, create = true }: PinOptions = {}) {
    const path = `${this.path}/${name}`;
    const shown = join(this.#shown, name);
    if (create) {
      await makeFolder(path, mode).catch((error: unknown) => {
        throw this.named(error);
      });
    }
    if (this.#handle !== undefined) return new PinnedFolder(shown, await openPlain(path, shown));
    if (!(await Deno.lstat(path)).isDirectory) throw notPlain(shown);
    return new PinnedFolder(shown);
  }

  /** An error about a path in the folder, with the folder's name instead of its descriptor. */
  named(error: unknown): unknown {
    if (error instanceof Error) {
      error.message = error.message.replaceAll(this.path, () => this.#shown);
    }
    return error;
  }

  /** Closes the folder. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#handle?.close();
  }
}

function canPin(): boolean {
  return Deno.build.os === "linux" && isAllGranted();
}

/**
 * Pins an existing folder whose real path is known, for synchronous writes; `undefined` where that is
 * not possible. Follows none of the links that code may have put in its place: they can lead through
 * thousands of folders.
 *
 * @throws {ConfigError} Something else is at the path.
 */
export function pinRealPath(path: string): Disposable & { readonly path: string } | undefined {
  if (!canPin()) return undefined;
  const fd = openPlainSync(path);
  using opened = new DisposableStack();
  opened.defer(() => closeSync(fd));
  if (readlinkSync(`/proc/self/fd/${fd}`) !== path) throw notPlain(path);
  const parts = opened.move();
  return { path: `/proc/self/fd/${fd}/.`, [Symbol.dispose]: () => parts.dispose() };
}

function openPlainSync(path: string): number {
  try {
    return openSync(path, FLAGS);
  } catch (error) {
    throw openingError(error, path);
  }
}

/** Creates a folder, unless something exists at the path, which need not be a folder. */
export async function makeFolder(path: string, mode: number): Promise<void> {
  await mkdir(path, { mode }).catch((error: unknown) => {
    if (codeOf(error) !== "EEXIST") throw error;
  });
}

async function openPlain(path: string, shown: string): Promise<FileHandle> {
  try {
    return await open(path, FLAGS);
  } catch (error) {
    throw openingError(error, shown);
  }
}

function openingError(error: unknown, shown: string): unknown {
  const isLink = codeOf(error) === "ELOOP" || codeOf(error) === "ENOTDIR";
  return isLink ? notPlain(shown, error) : error;
}

function notPlain(path: string, cause?: unknown): ConfigError {
  return new ConfigError(`Cannot use ${path}: it is not a plain folder`, { cause });
}
