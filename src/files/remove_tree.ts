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
    const pass = new Pass(folder, signal);
    let count = 0;
    for await (const { name } of Deno.readDir(folder)) {
      signal?.throwIfAborted();
      if (name === keep) continue;
      count++;
      await pass.try(`${folder}/${name}`, (path) => pass.remove(path));
    }
    if (count === 0) return;
    if (pass.changed) continue;
    const remedy = remedies.shift();
    if (remedy === undefined || !await runIn(folder, remedy, signal)) throw pass.failure;
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

/** One pass over the contents of the folder. */
class Pass {
  /** Whether anything was removed or moved. */
  changed = false;
  /** Why something could not be removed. */
  failure = new Error("Something is writing to it");
  readonly #folder: string;
  readonly #signal: AbortSignal | undefined;

  constructor(folder: string, signal: AbortSignal | undefined) {
    this.#folder = folder;
    this.#signal = signal;
  }

  /** Removes a direct entry of the folder, which code cannot replace. */
  async remove(path: string): Promise<void> {
    const { isDirectory, mode } = await Deno.lstat(path);
    if (isDirectory) {
      if (((mode ?? 0o700) & 0o700) !== 0o700) await Deno.chmod(path, 0o700);
      await this.#clear(path);
    }
    await Deno.remove(path);
    this.changed = true;
  }

  /** Catches errors, so that one undeletable entry does not block the others. Never rejects. */
  async try(path: string, remove: (path: string) => Promise<void>): Promise<void> {
    try {
      await remove(path);
    } catch (error) {
      const hasName = !path.includes(LOST);
      if (isGone(error) && hasName) this.changed = true; // another process removes the same entry
      else if (error instanceof Error) this.failure = error;
    }
  }

  async #clear(path: string): Promise<void> {
    let batch: Promise<void>[] = [];
    for await (const { name } of Deno.readDir(path)) {
      this.#signal?.throwIfAborted();
      batch.push(this.try(`${path}/${name}`, (path) => this.#takeOut(path)));
      if (batch.length < BATCH) continue;
      await Promise.all(batch);
      batch = [];
    }
    await Promise.all(batch);
  }

  /** Code may replace the entry by a link at any time: neither `remove` nor `rename` follows it. */
  async #takeOut(path: string): Promise<void> {
    try {
      await Deno.remove(path); // a file, a link or an empty folder
    } catch (error) {
      if (isGone(error)) throw error;
      await move(path, `${this.#folder}/${crypto.randomUUID()}`); // the next pass finds it
    }
    this.changed = true;
  }
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
