/**
 * Reads and writes files in a folder that hostile code may write to: never through a symbolic link,
 * and never partially.
 *
 * @module
 */
import { constants } from "node:fs";
import { type FileHandle, open as openNode } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { ConfigError } from "../base/errors.ts";
import { codeOf } from "../base/message_of.ts";
import { PinnedFolder } from "./pinned_folder.ts";

/** The largest file to read. We do not write larger ones. */
const MAX_BYTES = 4 * 2 ** 20;
/** How often to retry a file that another process is replacing. */
const ATTEMPTS = 100;

/** Why a file was not read. */
type Unread = "missing" | "not a plain file" | "too large";

/** Reads a text file, which must be a plain file; `undefined` if it does not exist. */
export async function readHostileFile(path: string): Promise<string | undefined> {
  const read = await readPlain(path, MAX_BYTES);
  switch (read) {
    case "missing":
      return undefined;
    case "not a plain file":
      throw new ConfigError(`Cannot read ${path}: it is ${read}`);
    case "too large":
      throw new ConfigError(`Cannot read ${path}: it is larger than 4 MiB`);
  }
  return new TextDecoder().decode(read);
}

/** Reads a file that hostile code may have replaced; `undefined` unless plain and of limited size. */
export async function readHostileBytes(
  path: string,
  maxBytes: number,
): Promise<Uint8Array<ArrayBuffer> | undefined> {
  const read = await readPlain(path, maxBytes);
  return typeof read === "string" ? undefined : read;
}

/** Reads a plain file; `undefined` if it cannot be reached, is too large or leads through a link. */
export async function readInside(
  root: string,
  parts: readonly string[],
  maxBytes: number,
): Promise<Uint8Array<ArrayBuffer> | undefined> {
  using opened = new DisposableStack();
  try {
    let folder = opened.use(PinnedFolder.open(root, { create: false }));
    for (const part of parts.slice(0, -1)) {
      folder = opened.use(folder.child(part, { create: false }));
    }
    return await readHostileBytes(`${folder.path}/${parts.at(-1)}`, maxBytes);
  } catch (error) {
    const unreachable = ["ENOENT", "ENOTDIR", "EACCES", "EPERM"];
    if (error instanceof ConfigError || unreachable.includes(String(codeOf(error)))) {
      return undefined;
    }
    throw error;
  }
}

async function readPlain(
  path: string,
  maxBytes: number,
): Promise<Uint8Array<ArrayBuffer> | Unread> {
  const file = await openPlain(path);
  if (typeof file === "string") return file;
  try {
    const opened = await file.stat();
    if (!opened.isFile()) return "not a plain file";
    if (opened.size > maxBytes) return "too large";
    const bytes = new Uint8Array(opened.size);
    let size = 0;
    while (size < bytes.length) {
      const { bytesRead } = await file.read(bytes, size, bytes.length - size);
      if (bytesRead === 0) break;
      size += bytesRead;
    }
    return bytes.subarray(0, size);
  } finally {
    await file.close();
  }
}

/** Opens a file that is no link. `Deno.open()` would wait forever for somebody to write to a pipe. */
async function openPlain(path: string): Promise<FileHandle | Unread> {
  const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants;
  try {
    return await openNode(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
  } catch (error) {
    const code = codeOf(error);
    if (code === "ENOENT") return "missing";
    if (code === "ELOOP") return "not a plain file"; // a link
    if (code === "ENXIO" || code === "EOPNOTSUPP") return "not a plain file"; // a socket
    await lstatIfPresent(path); // its error says more
    throw error;
  }
}

/** Whether a folder exists; throws if something else is at the path, such as a symbolic link. */
export async function isPlainFolder(folder: string): Promise<boolean> {
  const status = await lstatIfPresent(folder);
  if (status === undefined) return false;
  if (status.isDirectory) return true;
  throw new ConfigError(`Cannot use ${folder}: it is not a plain folder`);
}

/** Reads a text file in a folder; `undefined` if either does not exist. Throws if either is a link. */
export async function readInFolder(folder: string, name: string): Promise<string | undefined> {
  return await isPlainFolder(folder) ? await readHostileFile(join(folder, name)) : undefined;
}

/** Replaces a text file in a folder that code may write to, as {@linkcode replaceFile} does. */
export async function replaceHostileFile(path: string, text: string): Promise<void> {
  using folder = PinnedFolder.open(dirname(path));
  await replaceFile(join(folder.path, basename(path)), text).catch((error: unknown) => {
    throw folder.named(error);
  });
}

/** Replaces a text file atomically. If that fails, nothing is left behind. */
export async function replaceFile(path: string, text: string, mode = 0o600): Promise<void> {
  const temporary = join(dirname(path), `.${crypto.randomUUID()}.tmp`);
  try {
    // createNew fails if anything exists already, even a link.
    using file = await Deno.open(temporary, { write: true, createNew: true, mode });
    let bytes = new TextEncoder().encode(text);
    while (bytes.length > 0) bytes = bytes.subarray(await file.write(bytes));
    await file.sync();
    await Deno.rename(temporary, path); // replaces even a link
  } catch (error) {
    await Deno.remove(temporary).catch(() => {}); // it may not have been created
    throw error;
  }
}

/** Opens a file for reading and for changes. If it is missing, creates it for its owner only. */
export async function openPlainFile(
  path: string,
  how: "append" | "write" = "append",
): Promise<Deno.FsFile> {
  const options = { read: true, [how]: true };
  for (;;) {
    const present = await openIfPresent(path, options);
    if (present !== undefined) return present;
    try {
      return await Deno.open(path, { ...options, createNew: true, mode: 0o600 }); // fails on links
    } catch (error) {
      if (!(error instanceof Deno.errors.AlreadyExists)) throw error; // another process was faster
    }
  }
}

/** Opens a plain file; `undefined` if it does not exist. Throws for anything else. */
export async function openIfPresent(
  path: string,
  options: Pick<Deno.OpenOptions, "read" | "append" | "write">,
): Promise<Deno.FsFile | undefined> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const before = await lstatIfPresent(path);
    if (before === undefined) return undefined;
    if (!before.isFile) throw new ConfigError(`Cannot open ${path}: it is not a plain file`);
    using stack = new DisposableStack();
    const file = await ifPresent(Deno.open(path, options));
    if (file === undefined) return undefined;
    stack.use(file);
    const opened = await file.stat();
    if (opened.ino !== before.ino || opened.dev !== before.dev) continue; // it was replaced
    stack.move();
    return file;
  }
  throw new ConfigError(`Cannot open ${path}: it is being replaced`);
}

/** Whether an open file is still the one at its path: another process may have put its own there. */
export async function isStillAt(path: string, file: Deno.FsFile): Promise<boolean> {
  const [opened, there] = [await file.stat(), await ifPresent(Deno.lstat(path))];
  return opened.ino === there?.ino && opened.dev === there.dev;
}

/** Keeps other processes out until the result is disposed of. */
export async function lockPlainFolder(folder: string, name: string): Promise<Disposable> {
  using pinned = PinnedFolder.open(folder);
  const file = await openPlainFile(join(pinned.path, name));
  try {
    await file.lock(true);
    return file; // closing it releases the lock
  } catch (error) {
    file.close();
    throw error;
  }
}

/** The same for a user folder, which executed code cannot reach. Creates it with its parents. */
export async function lockUserFolder(folder: string): Promise<Disposable> {
  await Deno.mkdir(folder, { recursive: true, mode: 0o700 });
  return await lockPlainFolder(folder, "lock");
}

/** The status of a path, without following a link; `undefined` if nothing exists. */
export async function lstatIfPresent(path: string): Promise<Deno.FileInfo | undefined> {
  try {
    return await ifPresent(Deno.lstat(path));
  } catch (cause) {
    if (!(cause instanceof Deno.errors.NotADirectory)) throw cause;
    const above = dirname(path);
    await lstatIfPresent(above); // the file may be further up
    throw new ConfigError(`Cannot use ${above}: it is not a folder. Remove it`, { cause });
  }
}

/** Returns `undefined` if the path does not exist. */
export async function ifPresent<T>(found: Promise<T>): Promise<T | undefined> {
  try {
    return await found;
  } catch (error) {
    // Node's functions have different errors.
    if (error instanceof Deno.errors.NotFound) return undefined;
    if (codeOf(error) === "ENOENT") return undefined;
    throw error;
  }
}
