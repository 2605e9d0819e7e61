import { dirname } from "node:path";
import { ConfigError } from "../errors.ts";
import { PathTrust } from "./trusted_path.ts";

/** What the folders of ipybox in a shared place are called. */
const PREFIX = "ipybox-";

/**
 * A new folder, readable by nobody else. Disposing removes it; when this process dies before, the next
 * one that makes a folder beside it does.
 */
export class HeldFolder implements AsyncDisposable {
  /** The folder, without symbolic links in its path. */
  readonly path: string;
  readonly #lock: Disposable;

  private constructor(path: string, lock: Disposable) {
    this.path = path;
    this.#lock = lock;
  }

  /**
   * Makes a folder, and removes those of dead processes.
   *
   * @param parent Where it is made; the folder for temporary files by default.
   * @returns The folder.
   * @throws {ConfigError} Other users could put another one in its place.
   */
  static async create(parent?: string): Promise<HeldFolder> {
    const options = { prefix: PREFIX, ...(parent === undefined ? {} : { dir: parent }) };
    const path = await Deno.realPath(await Deno.makeTempDir(options));
    await refuseShared(path);
    const folder = new HeldFolder(path, await lockFolder(path));
    await removeAbandoned(path);
    return folder;
  }

  /** Removes the folder, whatever was done to it. */
  async [Symbol.asyncDispose](): Promise<void> {
    using _lock = this.#lock;
    await removeFolder(this.path);
  }
}

async function refuseShared(path: string): Promise<void> {
  const reason = await (await PathTrust.create()).whyShared(path);
  if (reason === undefined) return;
  await Deno.remove(path);
  throw new ConfigError(
    `Cannot keep private files in ${dirname(path)}: ${reason}; set TMPDIR to a folder of your own`,
  );
}

/** Holds the lock of a folder, which the system takes back when this process dies. */
async function lockFolder(root: string): Promise<Disposable> {
  const lock = await Deno.open(`${root}/locking`, { create: true, write: true, mode: 0o600 });
  try {
    await lock.lock(true);
    await Deno.rename(`${root}/locking`, `${root}/lock`); // nobody ever sees it unlocked
    return lock;
  } catch (error) {
    lock.close();
    throw error;
  }
}

/** Removes the folders of this user's processes that could not do so because they were killed. */
async function removeAbandoned(own: string): Promise<void> {
  const parent = dirname(own);
  // Asked first: a script with few permissions is not to be interrupted by a prompt for this.
  const mayRead = await Deno.permissions.query({ name: "read", path: parent });
  if (mayRead.state !== "granted") return;
  const { uid } = await Deno.lstat(own);
  for await (const { name, isDirectory } of Deno.readDir(parent)) {
    const root = `${parent}/${name}`;
    if (isDirectory && name.startsWith(PREFIX) && root !== own) {
      await removeIfAbandoned(root, uid);
    }
  }
}

async function removeIfAbandoned(root: string, uid: number | null): Promise<void> {
  try {
    if ((await Deno.lstat(root)).uid !== uid) return;
    if (!(await Deno.lstat(`${root}/lock`)).isFile) return;
    using lock = await Deno.open(`${root}/lock`, { write: true });
    if (await lock.tryLock(true)) await removeFolder(root);
  } catch (error) {
    // It is another program's, or another process was quicker.
    const isOthers = error instanceof Deno.errors.NotFound ||
      error instanceof Deno.errors.PermissionDenied;
    if (!isOthers) throw error;
  }
}

async function removeFolder(root: string): Promise<void> {
  try {
    await Deno.remove(root, { recursive: true });
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return;
    await makeRemovable(root); // code inside can take its own folders' rights away
    await Deno.remove(root, { recursive: true });
  }
}

async function makeRemovable(folder: string): Promise<void> {
  await Deno.chmod(folder, 0o700);
  for await (const entry of Deno.readDir(folder)) {
    if (entry.isDirectory) await makeRemovable(`${folder}/${entry.name}`);
  }
}
