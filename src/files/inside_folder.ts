/**
 * Access to files below a folder that hostile code may change at any time, even between a check and
 * the next step. No part of a path is followed through a symbolic link.
 *
 * Each folder is opened relative to its parent's descriptor, through Linux's `/proc/self/fd`. Other
 * systems are not supported.
 *
 * @module
 */
import { constants } from "node:fs";
import { type FileHandle, open, rename, unlink } from "node:fs/promises";
import { inBlocks } from "../base/bytes.ts";
import { codeOf } from "../base/message_of.ts";
import { isAllGranted } from "../base/permission.ts";
import { makeFolder } from "./pinned_folder.ts";
import { lstatIfPresent, readHostileBytes } from "./safe.ts";

const { O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY } = constants;

/** How many bytes to collect before writing, because clients may send byte by byte. */
const BLOCK = 1 << 16;

/** A path cannot be used: it does not exist, leads through a link, or is not a plain file. */
export class PathError extends Error {
  override readonly name: string = "PathError";

  constructor(readonly reason: "missing" | "refused", message: string, options?: ErrorOptions) {
    super(message, options);
  }
}

export interface OpenFile extends AsyncDisposable {
  /** Its bytes up to the end of the file at the time of reading. */
  readonly bytes: ReadableStream<Uint8Array>;
}

/** An entry of a folder. */
export interface Entry {
  readonly name: string;
  /** `"other"` stands for pipes, sockets and devices. */
  readonly type: "file" | "folder" | "link" | "other";
  /** Its size in bytes; 0 if it is no file. */
  readonly size: number;
  /** When it was modified, such as `2026-03-01T14:03:21.000Z`. */
  readonly modified: string;
}

/** More would take the host's memory. */
export const MAX_ENTRIES: number = 10_000;

/** Splits a relative path and checks its parts. */
export function pathParts(path: string): string[] {
  const parts = path.split("/");
  const bad = parts.some((part) =>
    part === "" || part === "." || part === ".." || part.includes("\0")
  );
  if (!bad && path.length <= 4000) return parts;
  throw new PathError("refused", `Cannot use the path ${JSON.stringify(path.slice(0, 200))}`);
}

/** Lists a folder, in no order. Links are not followed. */
export async function listInside(root: string, parts: readonly string[]): Promise<Entry[]> {
  await using folder = await openFolder(root, parts, false);
  const entries: Entry[] = [];
  for await (const { name } of Deno.readDir(inside(folder))) {
    const status = await lstatIfPresent(`${inside(folder)}/${name}`);
    if (status === undefined) continue; // code has removed it
    if (entries.length === MAX_ENTRIES) {
      const path = parts.join("/") || "The workspace";
      const message = `${path} has more than ${MAX_ENTRIES} entries: list it in a cell`;
      throw new PathError("refused", message);
    }
    const { isFile, isDirectory, isSymlink, size, mtime } = status;
    const type = isFile ? "file" : isDirectory ? "folder" : isSymlink ? "link" : "other";
    const modified = isoTime(mtime?.getTime() ?? 0);
    entries.push({ name, type, size: isFile ? size : 0, modified });
  }
  return entries;
}

/** A time in ISO 8601 format. Code can give a file one that no date has. */
export function isoTime(milliseconds: number): string {
  const inRange = Number.isFinite(milliseconds) && Math.abs(milliseconds) <= 8.64e15;
  return new Date(inRange ? milliseconds : 0).toISOString();
}

/** Opens a plain file for reading. */
export async function openInside(root: string, parts: readonly string[]): Promise<OpenFile> {
  await using folder = await openFolder(root, parts.slice(0, -1), false);
  // Without O_NONBLOCK, opening a pipe would wait for a writer.
  const flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK;
  const handle = await explained(parts, () => open(`${inside(folder)}/${parts.at(-1)}`, flags));
  const stats = await handle.stat();
  if (!stats.isFile()) {
    await handle.close();
    const hint = stats.isDirectory() ? "; a path that ends with / lists a folder" : "";
    throw new PathError("refused", `${parts.join("/")} is not a plain file${hint}`);
  }
  return {
    bytes: bytesOf(handle),
    [Symbol.asyncDispose]: () => handle.close(),
  };
}

/**
 * Reads a plain file; `undefined` if it does not exist, is too large or leads through a link.
 *
 * Only Linux has `/proc/self/fd`, and Deno opens it only for programs with all permissions.
 * Otherwise, the folders are checked one after the other, and code may be quick enough to replace
 * one.
 */
export async function readInside(
  root: string,
  parts: readonly string[],
  maxBytes: number,
): Promise<Uint8Array<ArrayBuffer> | undefined> {
  const [folders, name] = [parts.slice(0, -1), parts.at(-1) ?? ""];
  if (Deno.build.os === "linux" && isAllGranted()) {
    await using folder = await ifReachable(openFolder(root, folders, false));
    return folder && await readHostileBytes(`${inside(folder)}/${name}`, maxBytes);
  }
  let path = root;
  for (const part of folders) {
    path = `${path}/${part}`;
    if (!((await lstatIfPresent(path))?.isDirectory)) return undefined;
  }
  return await readHostileBytes(`${path}/${name}`, maxBytes);
}

/** Writes a file completely or not at all, and creates its parent folders. */
export async function writeInside(
  root: string,
  parts: readonly string[],
  bytes: AsyncIterable<Uint8Array>,
): Promise<void> {
  await using folder = await openFolder(root, parts.slice(0, -1), true);
  const temporary = `${inside(folder)}/.${crypto.randomUUID()}.upload`;
  const flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW;
  try {
    await using handle = await open(temporary, flags, 0o644);
    for await (const block of inBlocks(bytes, BLOCK)) await handle.writeFile(block);
    await explained(parts, () => rename(temporary, `${inside(folder)}/${parts.at(-1)}`));
  } catch (error) {
    await unlink(temporary).catch(() => {}); // it may not have been created
    throw error;
  }
}

/** Opens a folder, component by component. */
export async function openFolder(
  root: string,
  parts: readonly string[],
  create: boolean,
): Promise<FileHandle> {
  if (Deno.build.os !== "linux") {
    throw new PathError("refused", "Access to session files is only supported on Linux");
  }
  const flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW;
  let folder = await explained([root], () => open(root, flags));
  for (const [index, part] of parts.entries()) {
    await using above = folder;
    const path = `${inside(above)}/${part}`;
    if (create) await makeFolder(path, 0o777);
    folder = await explained(parts.slice(0, index + 1), () => open(path, flags));
  }
  return folder;
}

/** A path that leads to an open folder even if the folder is renamed. */
export function inside(folder: FileHandle): string {
  return `/proc/self/fd/${folder.fd}`;
}

/** Streams a file and closes it, even if the stream is cancelled before the first piece. */
function bytesOf(handle: FileHandle): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const buffer = new Uint8Array(64 * 1024);
        const { bytesRead } = await handle.read(buffer, 0, buffer.length, null);
        if (bytesRead > 0) return controller.enqueue(buffer.subarray(0, bytesRead));
      } catch (error) {
        await handle.close();
        throw error;
      }
      await handle.close();
      controller.close();
    },
    cancel: () => handle.close(),
  });
}

/** Runs a step and translates its errors about the path. */
async function explained<T>(parts: readonly string[], step: () => Promise<T>): Promise<T> {
  try {
    return await step();
  } catch (cause) {
    const path = parts.join("/");
    switch (codeOf(cause)) {
      case "ENOENT":
        throw new PathError("missing", `${path} does not exist`, { cause });
      case "ELOOP":
        throw new PathError("refused", `${path} is a symbolic link`, { cause });
      case "ENOTDIR":
        throw new PathError("refused", `${path} is not a folder, or is a symbolic link`, {
          cause,
        });
      case "ENAMETOOLONG":
        throw new PathError("refused", `${path} has a name that is too long`, { cause });
      case "EISDIR":
      case "ENOTEMPTY":
        throw new PathError("refused", `${path} is a folder`, { cause });
      default:
        throw cause;
    }
  }
}

/** Errors for paths that were replaced or removed just now, or that this user may not read. */
const UNREACHABLE: readonly unknown[] = [
  "ENOENT",
  "ELOOP",
  "ENOTDIR",
  "EINVAL", // no longer a link
  "ENXIO",
  "EACCES",
  "EPERM",
];

/** Returns `undefined` for paths that cannot be reached. */
export async function ifReachable<T>(opening: Promise<T>): Promise<T | undefined> {
  try {
    return await opening;
  } catch (error) {
    const cause = error instanceof Error ? error.cause : undefined;
    if (UNREACHABLE.includes(codeOf(error)) || UNREACHABLE.includes(codeOf(cause))) {
      return undefined;
    }
    throw error;
  }
}
