/**
 * Removes files that hostile code created and may still be changing. No link is followed, and
 * neither the stack nor paths nor descriptors grow with the depth of folders: Deno's own removal
 * of a folder aborts this process where code has nested some thousands of them.
 *
 * All work happens in one folder that the code cannot write to, so its direct entries cannot be
 * replaced. From each of them, files are removed and folders are moved up beside it, until
 * nothing is left. An interrupted removal can be continued by the next one.
 *
 * @module
 */
import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { codeOf } from "../base/message_of.ts";
import { isGranted } from "../base/permission.ts";
import { findProgram } from "../process/program.ts";
import { runProgram } from "../process/run_program.ts";

/** Options of {@linkcode emptyFolder}. */
interface EmptyOptions {
  /** The name of a file directly in the folder to keep. */
  readonly keep?: string;
  /** Cancels the removal. */
  readonly signal?: AbortSignal;
}

/** Options of {@linkcode removeTree}. */
interface RemoveTreeOptions {
  /** A folder on the same file system that code cannot write to, made if missing and emptied. */
  readonly through: string;
  /** Cancels the removal. */
  readonly signal?: AbortSignal;
}

/** How many entries of a folder are removed concurrently. */
const BATCH = 64;

/** Removes everything in a folder. */
export async function emptyFolder(folder: string, options: EmptyOptions = {}): Promise<void> {
  const { keep, signal } = options;
  // The rest may be unreadable even for its owner, or have names that Deno cannot represent.
  const others = ["-mindepth", "1", ...(keep === undefined ? [] : ["!", "-path", `./${keep}`])];
  const remedies = [["chmod", "-R", "u+rwX", "--", "."], ["find", ".", ...others, "-delete"]];
  for (;;) {
    const { count, changed, failure } = await sweep(folder, options);
    if (count === 0) return;
    if (changed) continue;
    const remedy = remedies.shift();
    if (remedy === undefined || !await runIn(folder, remedy, signal)) throw failure;
  }
}

/** Removes a file, or a folder with its contents. */
export async function removeTree(path: string, options: RemoveTreeOptions): Promise<void> {
  const { through, signal } = options;
  await Deno.mkdir(through, { recursive: true, mode: 0o700 });
  try {
    await move(path, `${through}/${crypto.randomUUID()}`);
  } catch (error) {
    if (!isGone(error)) throw error;
  }
  await emptyFolder(through, { signal });
}

/** Makes one pass over the entries of a folder. */
async function sweep(folder: string, { keep, signal }: EmptyOptions) {
  let count = 0;
  let changed = false; // whether anything was removed or moved
  let failure = new Error("Something is writing to it");

  /** Catches errors, so that one undeletable entry does not block the others. Never rejects. */
  const attempt = async (path: string, remove: (path: string) => Promise<void>) => {
    try {
      await remove(path);
      changed = true;
    } catch (error) {
      const hasName = !path.includes(LOST);
      if (isGone(error) && hasName) changed = true; // another process removes the same entry
      else if (error instanceof Error) failure = error;
    }
  };

  /** Code may replace the entry by a link at any time: neither `remove` nor `rename` follows it. */
  const takeOut = async (path: string) => {
    try {
      await Deno.remove(path); // a file, a link or an empty folder
    } catch (error) {
      if (isGone(error)) throw error;
      await move(path, `${folder}/${crypto.randomUUID()}`); // the next pass finds it
    }
  };

  const clear = async (path: string) => {
    let batch: Promise<void>[] = [];
    for await (const { name } of Deno.readDir(path)) {
      signal?.throwIfAborted();
      batch.push(attempt(`${path}/${name}`, takeOut));
      if (batch.length < BATCH) continue;
      await Promise.all(batch);
      batch = [];
    }
    await Promise.all(batch);
  };

  /** Removes a direct entry of the folder, which code cannot replace. */
  const remove = async (path: string) => {
    const { isDirectory, mode } = await Deno.lstat(path);
    if (isDirectory) {
      if (((mode ?? 0o700) & 0o700) !== 0o700) await Deno.chmod(path, 0o700);
      await clear(path);
    }
    await Deno.remove(path);
  };

  for await (const { name } of Deno.readDir(folder)) {
    signal?.throwIfAborted();
    if (name === keep) continue;
    count++;
    await attempt(`${folder}/${name}`, remove);
  }
  return { count, changed, failure };
}

/** Moves a folder. The system may require that its owner can write to it. */
async function move(from: string, to: string): Promise<void> {
  try {
    await Deno.rename(from, to);
  } catch (error) {
    if (!(error instanceof Deno.errors.PermissionDenied)) throw error;
    const { O_DIRECTORY, O_NOFOLLOW, O_RDONLY } = constants; // no link that code puts there is followed
    await using folder = await open(from, O_RDONLY | O_NOFOLLOW | O_DIRECTORY);
    await folder.chmod(0o700);
    await Deno.rename(from, to);
  }
}

/** Runs a program where Deno cannot help. It might follow links, so it can change nothing else. */
async function runIn(
  folder: string,
  [name = "", ...args]: readonly string[],
  signal: AbortSignal | undefined,
): Promise<boolean> {
  if (Deno.build.os !== "linux") return false;
  const [bwrap, program] = [await findProgram("bwrap"), await findProgram(name)];
  if (bwrap === undefined || program === undefined) return false;
  if (!isGranted({ name: "run", command: bwrap })) return false;
  const path = await Deno.realPath(folder);
  const wall = ["--die-with-parent", "--ro-bind", "/", "/", "--bind", path, path];
  await runProgram(bwrap, { args: [...wall, "--chdir", path, "--", program, ...args], signal });
  return true;
}

/** Deno's replacement for bytes in names that are not UTF-8. */
const LOST = "\ufffd";

function isGone(error: unknown): boolean {
  return error instanceof Deno.errors.NotFound ||
    codeOf(error) === "ENOENT"; // Node's functions have different errors
}
