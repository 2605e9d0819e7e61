/**
 * Removes files that hostile code created and may still be changing. No link is followed, and
 * neither the stack nor paths nor descriptors grow with the depth of folders.
 *
 * All work happens in one folder that the code cannot write to, so its direct entries cannot be
 * replaced. From each subfolder, files are removed and folders are moved up beside it, until
 * nothing is left. An interrupted removal can be continued by the next one.
 *
 * @module
 */
import { constants } from "node:fs";
import * as node from "node:fs/promises";
import { basename, dirname } from "node:path";
import { codeOf } from "../base/message_of.ts";
import { isGranted } from "../base/permission.ts";
import { PinnedFolder } from "./pinned_folder.ts";
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

/** How many entries of a folder are removed concurrently, and from how many folders. */
const BATCH = 64;
const FOLDERS = 8;
/** The most folders to remember; more are found again later. */
const MAX_FOUND = 10_000;

/** Removes everything in a folder. */
export async function emptyFolder(folder: string, options: EmptyOptions = {}): Promise<void> {
  const { keep, signal } = options;
  // The rest may be unreadable even for its owner, or have names that Deno cannot represent.
  const others = ["-mindepth", "1", ...(keep === undefined ? [] : ["!", "-path", `./${keep}`])];
  const remedies = [["chmod", "-R", "u+rwX", "--", "."], ["find", ".", ...others, "-delete"]];
  for (;;) {
    const pass = new Pass(folder, options);
    if (await pass.run() === 0) return;
    if (pass.changed) continue;
    const remedy = remedies.shift();
    if (remedy === undefined || !await runIn(folder, remedy, signal)) throw pass.failure;
  }
}

/** Removes a file, or a folder with its contents. */
export async function removeTree(path: string, options: RemoveTreeOptions): Promise<void> {
  const { through, signal } = options;
  await makeFolder(through);
  const target = `${through}/${crypto.randomUUID()}`;
  try {
    await move(path, target);
  } catch (error) {
    if (!isGone(error)) throw error;
  }
  await emptyFolder(through, { signal });
}

/** Removes something in a workspace, through its `.ipybox`, where code cannot write. */
export async function removeFromWorkspace(path: string, workspace: string): Promise<void> {
  using folder = PinnedFolder.open(dirname(path), { create: false });
  const target = `${folder.path}/${basename(path)}`;
  const name = `${workspace}/.ipybox`;
  const isWorkspace = await Deno.lstat(name).then(({ isDirectory }) => isDirectory, () => false);
  if (isWorkspace) {
    using state = PinnedFolder.open(name, { create: false });
    using through = state.child("removed");
    return await removeTree(target, { through: through.path });
  }
  await Deno.remove(target, { recursive: true });
}

async function makeFolder(path: string): Promise<void> {
  try {
    await Deno.mkdir(path, { mode: 0o700 });
  } catch (error) {
    const isThere = error instanceof Deno.errors.AlreadyExists;
    if (!isThere || !(await Deno.lstat(path)).isDirectory) throw error;
  }
}

/** One pass over the contents of the folder. */
class Pass {
  /** Whether anything was removed or moved. */
  changed = false;
  /** Why something could not be removed. */
  failure = new Error("Something is writing to it");
  /** Folders that were moved up and come next. */
  readonly #found: string[] = [];
  readonly #folder: string;
  readonly #options: EmptyOptions;

  constructor(folder: string, options: EmptyOptions) {
    this.#folder = folder;
    this.#options = options;
  }

  /** Returns how many entries there were. */
  async run(): Promise<number> {
    let count = 0;
    for await (const { name } of Deno.readDir(this.#folder)) {
      this.#options.signal?.throwIfAborted();
      if (name === this.#options.keep) continue;
      count++;
      this.#found.push(`${this.#folder}/${name}`);
      while (this.#found.length > 0) {
        this.#options.signal?.throwIfAborted();
        const some = this.#found.splice(-FOLDERS);
        await Promise.all(some.map((path) => this.#try(path, (path) => this.#remove(path))));
      }
    }
    return count;
  }

  /** Removes a direct entry of the folder, which code cannot replace. */
  async #remove(path: string): Promise<void> {
    const { isDirectory, mode } = await Deno.lstat(path);
    if (isDirectory) {
      if (((mode ?? 0o700) & 0o700) !== 0o700) await Deno.chmod(path, 0o700);
      await this.#clear(path);
    }
    await Deno.remove(path);
    this.changed = true;
  }

  async #clear(path: string): Promise<void> {
    let batch: Promise<void>[] = [];
    for await (const { name } of Deno.readDir(path)) {
      this.#options.signal?.throwIfAborted();
      batch.push(this.#try(`${path}/${name}`, (path) => this.#takeOut(path)));
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
      const target = `${this.#folder}/${crypto.randomUUID()}`;
      await move(path, target);
      if (this.#found.length < MAX_FOUND) this.#found.push(target); // else the next pass finds it
    }
    this.changed = true;
  }

  /** Catches errors, so that one undeletable entry does not keep others. Never rejects. */
  async #try(path: string, remove: (path: string) => Promise<void>): Promise<void> {
    try {
      await remove(path);
    } catch (error) {
      const hasName = !path.includes(LOST);
      if (isGone(error) && hasName) this.changed = true; // another process removes the same entry
      else if (error instanceof Error) this.failure = error;
    }
  }
}

/** Moves a folder. The system may require that its owner can write to it. */
async function move(from: string, to: string): Promise<void> {
  try {
    await Deno.rename(from, to);
  } catch (error) {
    if (!(error instanceof Deno.errors.PermissionDenied)) throw error;
    await openUp(from);
    await Deno.rename(from, to);
  }
}

/** Gives a folder's owner all permissions, without following a link that code puts in its place. */
async function openUp(path: string): Promise<void> {
  if (Deno.build.os === "darwin") return await node.lchmod(path, 0o700);
  const { O_DIRECTORY, O_NOFOLLOW, O_RDONLY } = constants;
  const folder = await node.open(path, O_RDONLY | O_NOFOLLOW | O_DIRECTORY);
  try {
    await folder.chmod(0o700);
  } finally {
    await folder.close();
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
