/**
 * Reading and writing files in a folder that hostile code may write to: never through a symbolic
 * link, and never half.
 *
 * @module
 */
import { dirname, join } from "node:path";
import { ConfigError } from "../errors.ts";

/** The largest file that is read. What is larger was not written by us. */
const MAX_BYTES = 4 * 2 ** 20;

/**
 * Reads a text file that must be a plain file.
 *
 * @param path The file.
 * @returns Its text, or `undefined` where there is none.
 * @throws {ConfigError} It is a symbolic link, no file, or larger than 4 MiB.
 */
export async function readHostileFile(path: string): Promise<string | undefined> {
  const before = await lstatIfPresent(path);
  if (before === undefined) return undefined;
  if (!before.isFile) throw new ConfigError(`Cannot read ${path}: it is not a plain file`);
  if (before.size > MAX_BYTES) throw new ConfigError(`Cannot read ${path}: it is above 4 MiB`);
  const bytes = await readSame(path, before, MAX_BYTES);
  if (bytes !== undefined) return new TextDecoder().decode(bytes);
  throw new ConfigError(`Cannot read ${path}: it was replaced while it was opened`);
}

/**
 * Reads a file that hostile code may have replaced since it was written.
 *
 * @param path The file.
 * @param maxBytes The most that is read.
 * @returns Its bytes, or `undefined` where it is gone, no plain file, or larger.
 */
export async function readHostileBytes(
  path: string,
  maxBytes: number,
): Promise<Uint8Array<ArrayBuffer> | undefined> {
  const before = await lstatIfPresent(path);
  if (!before?.isFile || before.size > maxBytes) return undefined;
  return await readSame(path, before, maxBytes);
}

/** Reads a file, if it still is the one that was looked at. */
async function readSame(
  path: string,
  before: Deno.FileInfo,
  maxBytes: number,
): Promise<Uint8Array<ArrayBuffer> | undefined> {
  using file = await Deno.open(path);
  const opened = await file.stat();
  if (opened.ino !== before.ino || opened.dev !== before.dev || opened.size > maxBytes) {
    return undefined;
  }
  const bytes = new Uint8Array(opened.size);
  let size = 0;
  while (size < bytes.length) {
    const read = await file.read(bytes.subarray(size));
    if (read === null) break;
    size += read;
  }
  return bytes.subarray(0, size);
}

/**
 * Looks whether there is a plain file.
 *
 * @param path The file.
 * @returns Whether it is there and is no link and no folder.
 */
export async function isPlainFile(path: string): Promise<boolean> {
  return (await lstatIfPresent(path))?.isFile ?? false;
}

/**
 * Checks that a folder is not a symbolic link to another place.
 *
 * @param folder The folder, which may be missing.
 * @returns Whether it is there.
 * @throws {ConfigError} It is a symbolic link or no folder.
 */
export async function isPlainFolder(folder: string): Promise<boolean> {
  const status = await lstatIfPresent(folder);
  if (status === undefined) return false;
  if (status.isDirectory) return true;
  throw new ConfigError(`Cannot use ${folder}: it is not a plain folder`);
}

/**
 * Replaces a text file, at once and for its owner only.
 *
 * @param path The file. Its folder is made if it is not there.
 * @param text Its new text.
 * @throws {ConfigError} Its folder is a symbolic link or no folder.
 */
export async function replaceHostileFile(path: string, text: string): Promise<void> {
  const folder = dirname(path);
  await makePlainFolder(folder);
  const temporary = join(folder, `.${crypto.randomUUID()}.tmp`);
  try {
    // createNew fails on anything that is there already, links included.
    using file = await Deno.open(temporary, { write: true, createNew: true, mode: 0o600 });
    let bytes = new TextEncoder().encode(text);
    while (bytes.length > 0) bytes = bytes.subarray(await file.write(bytes));
    await file.sync();
    await Deno.rename(temporary, path); // replaces a link itself, not what it points to
  } catch (error) {
    await Deno.remove(temporary).catch(() => {}); // it may not have been made
    throw error;
  }
}

/**
 * Opens a file for reading and appending, which is made for its owner only where it is missing.
 *
 * @param path The file.
 * @returns The file.
 * @throws {ConfigError} Something else is in its place.
 */
export async function openPlainFile(path: string): Promise<Deno.FsFile> {
  const options = { read: true, append: true };
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

/**
 * Opens a file that must be a plain one, if it is there.
 *
 * @param path The file.
 * @param options What for.
 * @returns The open file, or `undefined` where there is none.
 * @throws {ConfigError} Something else is in its place.
 */
export async function openIfPresent(
  path: string,
  options: Pick<Deno.OpenOptions, "read" | "append">,
): Promise<Deno.FsFile | undefined> {
  try {
    const before = await Deno.lstat(path);
    if (!before.isFile) throw new ConfigError(`Cannot open ${path}: it is not a plain file`);
    const file = await Deno.open(path, options);
    const opened = await file.stat();
    if (opened.ino === before.ino && opened.dev === before.dev) return file;
    file.close();
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
  throw new ConfigError(`Cannot open ${path}: it was replaced while it was opened`);
}

/**
 * Keeps other processes out until the result is disposed.
 *
 * @param folder The folder, which is made for its owner only where it is missing.
 * @param name The lock's file in it.
 * @returns The lock.
 * @throws {ConfigError} Something else is where the folder or the file should be.
 */
export async function lockPlainFolder(folder: string, name: string): Promise<Disposable> {
  await makePlainFolder(folder);
  const file = await openPlainFile(join(folder, name));
  try {
    await file.lock(true);
    return file; // closing it gives the lock back
  } catch (error) {
    file.close();
    throw error;
  }
}

/**
 * Makes a folder for its owner only, where it is missing.
 *
 * @param folder The folder.
 * @throws {ConfigError} It is a symbolic link or no folder.
 */
export async function makePlainFolder(folder: string): Promise<void> {
  while (!await isPlainFolder(folder)) {
    try {
      await Deno.mkdir(folder, { mode: 0o700 });
    } catch (error) {
      if (!(error instanceof Deno.errors.AlreadyExists)) throw error; // another process was faster
    }
  }
}

/**
 * Looks at what is at a path, and at no link's target.
 *
 * @param path The path.
 * @returns What is there, or `undefined` where nothing is.
 */
export async function lstatIfPresent(path: string): Promise<Deno.FileInfo | undefined> {
  try {
    return await Deno.lstat(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}
