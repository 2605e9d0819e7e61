/**
 * Copies a folder that hostile code may be changing. No link is followed, and only files, folders
 * and harmless links are copied.
 *
 * @module
 */
import { constants } from "node:fs";
import { mkdir, open, readlink, symlink } from "node:fs/promises";
import { join } from "node:path";
import { allDone } from "../base/signals.ts";
import { codeOf } from "../base/message_of.ts";
import { ifReachable, inside, openFolder } from "./beneath.ts";
import { lstatIfPresent } from "./safe.ts";

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY } = constants;

/** What to copy, and its limits. */
export interface CopyOptions {
  /** The most files, folders and links. */
  readonly maxEntries: number;
  /** The most bytes of all files together. */
  readonly maxBytes: number;
  /** Whether to leave out an entry. `parts` is its path below the folder. */
  readonly leaveOut: (entry: Deno.DirEntry, parts: readonly string[]) => boolean;
  /** Cancels the copy. What has been copied by then remains. */
  readonly signal: AbortSignal;
}

/** There is more to copy than the limits allow. */
export class CopyLimitError extends Error {
  override readonly name: string = "CopyLimitError";

  /** @param limit The limit that was reached. */
  constructor(readonly limit: "entries" | "bytes" | "depth") {
    super(`Too much to copy: the limit of ${limit} is reached`);
  }
}

/** The most nested folders: opening each takes a descriptor. */
export const MAX_COPY_DEPTH = 100;
/** The bytes to read at a time, and the files to copy at a time. */
const PIECE_BYTES = 2 ** 20;
const AT_A_TIME = 8;
/** Copies the contents of a folder. Links stay links, if their targets are below it; files are not shared. */
export async function copyBeneath(from: string, to: string, options: CopyOptions): Promise<void> {
  await new Copy(from, to, options).run();
}

class Copy {
  readonly #from: string;
  readonly #to: string;
  readonly #options: CopyOptions;
  readonly #folders: (readonly string[])[] = [[]];
  #entries = 0;
  #bytes = 0;

  constructor(from: string, to: string, options: CopyOptions) {
    this.#from = from;
    this.#to = to;
    this.#options = options;
  }

  async run(): Promise<void> {
    for (let parts = this.#folders.pop(); parts !== undefined; parts = this.#folders.pop()) {
      if (parts.length > MAX_COPY_DEPTH) throw new CopyLimitError("depth");
      await this.#folder(parts);
    }
  }

  async #folder(parts: readonly string[]): Promise<void> {
    await using folder = await ifReachable(openFolder(this.#from, parts, false));
    if (folder === undefined) return;
    const path = inside(folder);
    if (parts.length > 0) await mkdir(join(this.#to, ...parts));
    let batch: Promise<void>[] = [];
    try {
      for await (const entry of Deno.readDir(path)) {
        const own = [...parts, entry.name];
        this.#options.signal.throwIfAborted();
        if (this.#options.leaveOut(entry, own)) continue;
        if (++this.#entries > this.#options.maxEntries) throw new CopyLimitError("entries");
        if (entry.isDirectory) this.#folders.push(own);
        else if (entry.isFile) batch.push(this.#file(`${path}/${entry.name}`, own));
        else if (entry.isSymlink) batch.push(this.#link(`${path}/${entry.name}`, own));
        if (batch.length < AT_A_TIME) continue;
        await allDone(batch);
        batch = [];
      }
    } finally {
      await allDone(batch); // they need the open folder
    }
  }

  async #file(path: string, parts: readonly string[]): Promise<void> {
    // Without O_NONBLOCK, opening a pipe in its place would wait for a writer.
    await using source = await ifReachable(open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK));
    const stats = await source?.stat();
    if (source === undefined || !stats?.isFile()) return;
    this.#take(stats.size);
    const mode = stats.mode & 0o777 | 0o600;
    const flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW;
    await using target = await ifNew(open(join(this.#to, ...parts), flags, mode));
    if (target === undefined) return;
    const buffer = new Uint8Array(Math.min(PIECE_BYTES, stats.size + 1));
    let left = stats.size;
    for (;;) {
      this.#options.signal.throwIfAborted();
      const { bytesRead } = await source.read(buffer, 0, buffer.length, null);
      if (bytesRead === 0) break;
      if (bytesRead > left) this.#take(bytesRead - left); // it has grown
      left = Math.max(0, left - bytesRead);
      await target.writeFile(buffer.subarray(0, bytesRead));
    }
    await target.utimes(stats.atime, stats.mtime);
  }

  async #link(path: string, parts: readonly string[]): Promise<void> {
    const target = await ifReachable(readlink(path));
    if (target !== undefined && staysBelow(target, parts)) {
      await ifNew(symlink(target, join(this.#to, ...parts)));
    }
  }

  #take(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes > this.#options.maxBytes) throw new CopyLimitError("bytes");
  }
}

/** Whether a link's text names something below the copied folder. */
function staysBelow(target: string, parts: readonly string[]): boolean {
  if (target.startsWith("/")) return false;
  let depth = parts.length - 1;
  for (const part of target.split("/")) {
    if (part === "..") depth--;
    else if (part !== "" && part !== ".") depth++;
    if (depth < 0) return false;
  }
  return true;
}

/** Skips names that a folder seems to list twice: different names that are not UTF-8 may look equal. */
async function ifNew<T>(making: Promise<T>): Promise<T | undefined> {
  try {
    return await making;
  } catch (error) {
    if (codeOf(error) === "EEXIST") return undefined;
    throw error;
  }
}

/** The size and age of a folder. */
interface FolderUsage {
  /** The size of its files in bytes. */
  readonly bytes: number;
  /** When anything in it was last modified, in milliseconds since 1970. */
  readonly changedAt: number;
}

/** Longer paths are skipped, because code can nest folders deeper than the system can name. */
const MAX_PATH = 2000;

/** The most folders to remember. Names are not remembered at all, because code can make millions. */
const MAX_FOLDERS = 100_000;

/** How large a folder is, and when anything in it was last modified, as far as it can be read. */
export async function folderUsage(root: string): Promise<FolderUsage> {
  const usage = { bytes: 0, changedAt: 0 };
  const folders: string[] = [];
  const add = async (path: string): Promise<void> => {
    const info = await lstatIfPresent(path);
    if (info === undefined) return;
    usage.changedAt = Math.max(usage.changedAt, info.mtime?.getTime() ?? Infinity);
    if (!info.isDirectory) usage.bytes += info.size;
    else if (path.length <= MAX_PATH && folders.length < MAX_FOLDERS) folders.push(path);
  };
  await add(root);
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    try {
      for await (const { name } of Deno.readDir(folder)) await add(join(folder, name));
    } catch (error) {
      const { NotADirectory, NotFound, PermissionDenied } = Deno.errors;
      const isClosed = [NotADirectory, NotFound, PermissionDenied]
        .some((closed) => error instanceof closed);
      if (!isClosed) throw error; // closed by code, but still removable
    }
  }
  return usage;
}
