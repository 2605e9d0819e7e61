/**
 * Holds folders of a workspace open, so that nothing is read or written elsewhere: its code, or that of a
 * workspace around it, can put a link in a folder's place at any time. There may be no
 * running place to ask instead.
 *
 * @module
 */
import { closeSync, constants, mkdirSync, openSync, readlinkSync } from "node:fs";
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

/**
 * A folder that stays the same even if its path is replaced.
 *
 * It is held open only on Linux, and with all of Deno's permissions, which `/proc/self/fd` needs. Otherwise,
 * folders are checked one after the other, and code may be quick enough to replace one.
 */
export class PinnedFolder implements Disposable {
  /** A path that leads to the folder until this is disposed of. */
  readonly path: string;
  readonly #shown: string;
  readonly #fd: number | undefined;

  private constructor(shown: string, fd?: number) {
    this.#shown = shown;
    this.#fd = fd;
    // The dot ensures that the path itself is not a link.
    this.path = fd === undefined ? shown : `/proc/self/fd/${fd}/.`;
  }

  /** Opens a folder, which must not be a link. */
  static open(folder: string, options: PinOptions = {}): PinnedFolder {
    const path = resolve(folder);
    const above = dirname(path);
    const isReal = !canPin() || isSettled(path);
    using parent = PinnedFolder.at(isReal ? above : Deno.realPathSync(above));
    return parent.child(basename(path), options);
  }

  /**
   * Opens an existing folder by its real path. Follows none of the links that code may have put in its place:
   * they can lead through thousands of folders.
   */
  static at(path: string): PinnedFolder {
    if (!canPin()) return new PinnedFolder(path);
    using opened = new DisposableStack();
    const folder = opened.use(new PinnedFolder(path, openPlain(path, path)));
    if (readlinkSync(folder.path.slice(0, -2)) !== path) throw notPlain(path);
    opened.move();
    return folder;
  }

  /** Whether it is held open. */
  get isHeld(): boolean {
    return this.#fd !== undefined;
  }

  /** Opens a subfolder. */
  child(name: string, { mode = 0o700, create = true }: PinOptions = {}): PinnedFolder {
    const path = `${this.path}/${name}`;
    const shown = join(this.#shown, name);
    if (create) {
      try {
        mkdirSync(path, { mode });
      } catch (error) {
        if (codeOf(error) !== "EEXIST") throw this.named(error);
      }
    }
    if (this.#fd !== undefined) return new PinnedFolder(shown, openPlain(path, shown));
    if (!Deno.lstatSync(path).isDirectory) throw notPlain(shown);
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
  [Symbol.dispose](): void {
    if (this.#fd !== undefined) closeSync(this.#fd);
  }
}

function canPin(): boolean {
  return Deno.build.os === "linux" && isAllGranted();
}

function openPlain(path: string, shown: string): number {
  try {
    return openSync(path, FLAGS);
  } catch (error) {
    const isLink = codeOf(error) === "ELOOP" || codeOf(error) === "ENOTDIR";
    throw isLink ? notPlain(shown, error) : error;
  }
}

function notPlain(path: string, cause?: unknown): ConfigError {
  return new ConfigError(`Cannot use ${path}: it is not a plain folder`, { cause });
}
