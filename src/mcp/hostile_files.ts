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
 * Makes a folder for its owner only, if it is not there.
 *
 * @param folder The folder.
 * @throws {ConfigError} It is a symbolic link or no folder.
 */
export async function makePlainFolder(folder: string): Promise<void> {
  if (await isPlainFolder(folder)) return;
  try {
    await Deno.mkdir(folder, { mode: 0o700 });
  } catch (error) {
    // Another process may have been faster.
    if (!(error instanceof Deno.errors.AlreadyExists) || !await isPlainFolder(folder)) throw error;
  }
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
 * Opens a file for reading and appending that must be a plain one, or is made.
 *
 * @param path The file, in a folder that is there.
 * @returns The file, for its owner only.
 * @throws {ConfigError} Something else is in its place.
 */
export async function openHostileFile(path: string): Promise<Deno.FsFile> {
  const options = { read: true, append: true, mode: 0o600 };
  const before = await lstatIfPresent(path);
  if (before === undefined) {
    try {
      return await Deno.open(path, { ...options, createNew: true }); // fails on links
    } catch (error) {
      if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
      return await openHostileFile(path); // another process was faster
    }
  }
  if (!before.isFile) throw new ConfigError(`Cannot open ${path}: it is not a plain file`);
  const file = await Deno.open(path, options);
  const opened = await file.stat();
  if (opened.ino === before.ino && opened.dev === before.dev) return file;
  file.close();
  throw new ConfigError(`Cannot open ${path}: it was replaced while it was opened`);
}

/**
 * Keeps other processes that ask for the same lock out until the result is disposed.
 *
 * @param path A file that is only there to be locked, in a folder that is there.
 * @returns The lock.
 * @throws {ConfigError} Something else is in the file's place.
 */
export async function lockHostileFile(path: string): Promise<Disposable> {
  const file = await openHostileFile(path);
  try {
    await file.lock(true);
    return file; // closing it gives the lock back
  } catch (error) {
    file.close();
    throw error;
  }
}

async function lstatIfPresent(path: string): Promise<Deno.FileInfo | undefined> {
  try {
    return await Deno.lstat(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}
