/**
 * Files below a folder that hostile code may change at any time, also between a look and a step: no
 * part of a path is followed through a symbolic link.
 *
 * Each folder is opened in the one before it, through its descriptor: what Linux has in
 * `/proc/self/fd`. Elsewhere this is refused.
 *
 * @module
 */
import { constants } from "node:fs";
import { type FileHandle, mkdir, open, rename, unlink } from "node:fs/promises";
import { inBlocks } from "../base/bytes.ts";
import { codeOf } from "../base/message_of.ts";
import { isAllGranted } from "../base/permission.ts";
import { lstatIfPresent, readHostileBytes } from "./safe.ts";

const { O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY } = constants;

/** How much is collected before it is written: a client may send byte by byte. */
const BLOCK = 1 << 16;

/** A path cannot be used: it is not there, leads through a link, or is not a plain file. */
export class BeneathError extends Error {
  override readonly name: string = "BeneathError";

  constructor(readonly reason: "missing" | "refused", message: string, options?: ErrorOptions) {
    super(message, options);
  }
}

/** An open file. */
export interface OpenFile extends AsyncDisposable {
  /** Its bytes, in pieces; to its end as it then is. */
  readonly bytes: ReadableStream<Uint8Array>;
}

/** Checks a relative path. */
export function pathParts(path: string): string[] {
  const parts = path.split("/");
  const bad = parts.some((part) =>
    part === "" || part === "." || part === ".." || part.includes("\0")
  );
  if (!bad && path.length <= 4000) return parts;
  throw new BeneathError("refused", `Cannot use the path ${JSON.stringify(path.slice(0, 200))}`);
}

/** Opens a plain file for reading. */
export async function openBeneath(root: string, parts: readonly string[]): Promise<OpenFile> {
  await using folder = await openFolder(root, parts.slice(0, -1), false);
  // A pipe would not open before somebody writes to it.
  const flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK;
  const handle = await told(parts, () => open(`${inside(folder)}/${parts.at(-1)}`, flags));
  const stats = await handle.stat();
  if (!stats.isFile()) {
    await handle.close();
    throw new BeneathError("refused", `${parts.join("/")} is not a plain file`);
  }
  return {
    bytes: bytesOf(handle),
    [Symbol.asyncDispose]: () => handle.close(),
  };
}

/**
 * Reads a plain file; `undefined` where there is none, where it is larger, and where a link leads to it.
 *
 * Only Linux has `/proc/self/fd`, and Deno opens it only for programs with all permissions. Elsewhere,
 * the folders are looked at one after the other, and code may be quick enough to replace one.
 */
export async function readBeneath(
  root: string,
  parts: readonly string[],
  maxBytes: number,
): Promise<Uint8Array<ArrayBuffer> | undefined> {
  const [folders, name] = [parts.slice(0, -1), parts.at(-1) ?? ""];
  if (Deno.build.os === "linux" && isAllGranted()) {
    await using folder = await reached(openFolder(root, folders, false));
    return folder && await readHostileBytes(`${inside(folder)}/${name}`, maxBytes);
  }
  let path = root;
  for (const part of folders) {
    path = `${path}/${part}`;
    if (!((await lstatIfPresent(path))?.isDirectory)) return undefined;
  }
  return await readHostileBytes(`${path}/${name}`, maxBytes);
}

/** Writes a file, whole or not at all, and the folders to it. */
export async function writeBeneath(
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
    await told(parts, () => rename(temporary, `${inside(folder)}/${parts.at(-1)}`));
  } catch (error) {
    await unlink(temporary).catch(() => {}); // it may not have been made
    throw error;
  }
}

/** Opens a folder, part by part. */
export async function openFolder(
  root: string,
  parts: readonly string[],
  create: boolean,
): Promise<FileHandle> {
  if (Deno.build.os !== "linux") {
    throw new BeneathError("refused", "Access to session files is only supported on Linux");
  }
  const flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW;
  let folder = await told([root], () => open(root, flags));
  for (const [index, part] of parts.entries()) {
    await using above = folder;
    const path = `${inside(above)}/${part}`;
    if (create) {
      await mkdir(path).catch((error: unknown) => {
        if (codeOf(error) !== "EEXIST") throw error;
      });
    }
    folder = await told(parts.slice(0, index + 1), () => open(path, flags));
  }
  return folder;
}

/** An open folder, as a path that stays with it whatever becomes of its name. */
export function inside(folder: FileHandle): string {
  return `/proc/self/fd/${folder.fd}`;
}

/** Also who cancels before the first piece has the file closed. */
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

/** Does something with a path, and says in our words what is wrong with it. */
async function told<T>(parts: readonly string[], step: () => Promise<T>): Promise<T> {
  try {
    return await step();
  } catch (cause) {
    const path = parts.join("/");
    switch (codeOf(cause)) {
      case "ENOENT":
        throw new BeneathError("missing", `${path} does not exist`, { cause });
      case "ELOOP":
        throw new BeneathError("refused", `${path} is a symbolic link`, { cause });
      case "ENOTDIR":
        throw new BeneathError("refused", `${path} is not a folder, or is a symbolic link`, {
          cause,
        });
      case "ENAMETOOLONG":
        throw new BeneathError("refused", `${path} has a name that is too long`, { cause });
      case "EISDIR":
      case "ENOTEMPTY":
        throw new BeneathError("refused", `${path} is a folder`, { cause });
      default:
        throw cause;
    }
  }
}

/** What cannot be opened: it was replaced or removed just now, or this user may not read it. */
const UNREACHABLE: readonly unknown[] = [
  "ENOENT",
  "ELOOP",
  "ENOTDIR",
  "EINVAL", // no link any more
  "ENXIO",
  "EACCES",
  "EPERM",
];

/** Gives `undefined` for what cannot be reached. */
export async function reached<T>(opening: Promise<T>): Promise<T | undefined> {
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
