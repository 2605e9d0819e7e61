import { dirname, join } from "node:path";
import { fill } from "../base/bytes.ts";
import { ConfigError } from "../base/errors.ts";
import { type Logger, silentLogger } from "../base/log.ts";
import { messageOf } from "../base/message_of.ts";
import { isAllGranted, isGranted, mayRead } from "../base/permission.ts";
import { PathTrust } from "../process/trusted_path.ts";
import type { Held } from "./held_records.ts";
import { emptyFolder } from "./remove_tree.ts";
import { isStillAt } from "./safe.ts";
import { cacheFolder, temporaryFolder } from "./user_folders.ts";

/**
 * An empty folder in which to start a program of somebody else's. Disposing it removes it.
 *
 * It must not be the workspace, where sandboxed code writes, nor below a folder where other users
 * write: programs look for packages, modules and settings in their working directory and its
 * parents, and execute or obey what they find. So it is in the user's cache. If there is none, it
 * is in the folder for temporary files, below files that stop the known programs from looking
 * further up.
 */
export class PrivateFolder implements AsyncDisposable {
  /** The folder, without symbolic links in its path. */
  readonly path: string;
  readonly #held: HeldFolder;

  private constructor(held: HeldFolder) {
    this.#held = held;
    this.path = `${held.path}/empty`;
  }

  static async create(
    untrusted: readonly string[] = [],
    log: Logger = silentLogger,
  ): Promise<PrivateFolder> {
    await using parts = new AsyncDisposableStack();
    const held = parts.use(
      await HeldFolder.create({ parent: await userRunFolder(untrusted), log }),
    );
    const folder = new PrivateFolder(held);
    for (const path of [folder.path, `${held.path}/node_modules`]) await Deno.mkdir(path);
    for (const [name, text] of BARRIER) await Deno.writeTextFile(`${held.path}/${name}`, text);
    parts.move();
    return folder;
  }

  /** Removes the folder and what is in it. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#held[Symbol.asyncDispose]();
  }
}

/** Files that stop Deno, uv, npm and pnpm from looking further up. With a `package.json`, one above could claim it. */
const BARRIER: readonly (readonly [name: string, text: string])[] = [
  ["deno.json", '{ "workspace": [] }\n'],
  ["pyproject.toml", "[tool.uv.workspace]\n"],
  ["pnpm-workspace.yaml", "packages: []\n"],
];

/** The folder in the user's cache, if it is available and only this user can write to it. */
async function userRunFolder(untrusted: readonly string[]): Promise<string | undefined> {
  const cache = cacheFolder();
  if (cache === undefined) return undefined;
  const path = join(cache, "run");
  const wanted: readonly Deno.PermissionDescriptor[] = [
    { name: "read", path },
    { name: "write", path },
    { name: "sys", kind: "uid" },
  ];
  if (!wanted.every(isGranted)) return undefined;
  try {
    await Deno.mkdir(path, { recursive: true, mode: 0o700 });
    const { isDirectory, uid, mode } = await Deno.lstat(path);
    if (!isDirectory || uid !== Deno.uid()) return undefined;
    if (((mode ?? 0) & 0o077) !== 0) await Deno.chmod(path, 0o700);
  } catch {
    return undefined; // a home directory that is missing, full or read-only
  }
  const trust = await PathTrust.create(untrusted);
  return await trust.whyReplaceable(path) === undefined ? path : undefined;
}

/** The prefix of ipybox's folders in a shared place. */
const PREFIX = "ipybox-";
/** The locked file in each of them, which says which folder it is. */
const LOCK = "lock";

const MAX_IDENTITY = 100;

/** How long to keep removing files while code that was not stopped still writes. */
const REMOVE_MS = 10 * 60_000;
/** How long a start may be delayed by leftovers of killed processes. The next start continues. */
const SWEEP_MS = 10_000;
/** How many folders of running processes to look at then: other users can make any number of our names. */
const MAX_HELD = 1000;

/** Options of {@linkcode HeldFolder.create}. */
interface HeldFolderOptions {
  /** The folder to create it in; by default the one for temporary files. */
  readonly parent?: string;
  /** Receives leftovers of killed processes that could not be removed. */
  readonly log?: Logger;
}

/** The longest path of a folder for sockets, in bytes: systems limit that of a socket to 103 or 107. */
const MAX_SOCKET_FOLDER = 95;

/** Makes a folder for sockets, if Deno's permissions allow sockets. `TMPDIR` may be too long for them. */
export async function socketFolder(log: Logger): Promise<HeldFolder | undefined> {
  if (!isAllGranted()) return undefined;
  const folder = await HeldFolder.create({ log });
  if (new TextEncoder().encode(folder.path).length <= MAX_SOCKET_FOLDER) return folder;
  await folder[Symbol.asyncDispose]();
  return await HeldFolder.create({ parent: "/tmp", log });
}

/** A new folder that nobody else can read. The next one made beside it removes those of dead processes. */
export class HeldFolder implements Held {
  /** The folder, without symbolic links in its path. */
  readonly path: string;
  readonly #lock: Disposable;

  private constructor(path: string, lock: Disposable) {
    this.path = path;
    this.#lock = lock;
  }

  /** Creates a folder, and removes those of dead processes. */
  static async create({ parent, log = silentLogger }: HeldFolderOptions = {}): Promise<HeldFolder> {
    const path = await Deno.realPath(await makeFolder(parent));
    await refuseShared(path);
    const folder = new HeldFolder(path, await lockFolder(path));
    await removeAbandoned(path, log);
    return folder;
  }

  /** The file that this process has locked. */
  get lock(): string {
    return `${this.path}/${LOCK}`;
  }

  /** Hands the folder over to another process. */
  leave(): void {
    this.#lock[Symbol.dispose]();
  }

  /** Removes the folder, whatever was done to it. */
  async [Symbol.asyncDispose](): Promise<void> {
    using _lock = this.#lock;
    await removeHeld(this.path, AbortSignal.timeout(REMOVE_MS));
  }
}

async function makeFolder(parent: string | undefined): Promise<string> {
  try {
    return await Deno.makeTempDir({ prefix: PREFIX, dir: parent });
  } catch (cause) {
    if (cause instanceof Deno.errors.NotCapable) throw cause; // it names the flag that is missing
    throw new ConfigError(
      `Cannot keep private files in ${parent ?? temporaryFolder()}: ${
        messageOf(cause)
      }; set TMPDIR to a folder that you can write to`,
      { cause },
    );
  }
}

/** Refuses a new folder of this user's that others could replace. */
async function refuseShared(path: string): Promise<void> {
  // The owner of the new folder is this user, which takes no permission to find out. If others
  // could have replaced it already, its parent is refused.
  const { uid } = await Deno.lstat(path);
  const reason = await (await PathTrust.create([], uid ?? undefined)).whyReplaceable(path);
  if (reason === undefined) return;
  await Deno.remove(path);
  throw new ConfigError(
    `Cannot keep private files in ${
      dirname(path)
    }: ${reason}; set TMPDIR to a folder that only you can write to`,
  );
}

/** Locks a folder. The system releases the lock when this process dies. */
async function lockFolder(root: string): Promise<Disposable> {
  const lock = await Deno.open(`${root}/locking`, { create: true, write: true, mode: 0o600 });
  try {
    await lock.lock(true);
    await lock.write(new TextEncoder().encode(await identityOf(root)));
    await Deno.rename(`${root}/locking`, `${root}/${LOCK}`); // nobody ever sees it unlocked
    return lock;
  } catch (error) {
    lock.close();
    throw error;
  }
}

/**
 * Tells a folder from all others. A repository or an archive can have a folder of our name with a lock
 * in it, but its author cannot know this.
 */
async function identityOf(root: string): Promise<string> {
  const { ino, birthtime } = await Deno.lstat(root);
  return `${ino} ${birthtime?.getTime() ?? ""}`;
}

/** Removes the folders of this user's processes that were killed before they could. */
async function removeAbandoned(own: string, log: Logger): Promise<void> {
  const parent = dirname(own);
  if (!mayRead(parent)) return;
  const { uid } = await Deno.lstat(own);
  const signal = AbortSignal.timeout(SWEEP_MS);
  await forEachAbandoned({ parent, uid, maxHeld: MAX_HELD }, async (path) => {
    if (signal.aborted) return;
    try {
      await removeHeld(path, signal);
    } catch (error) {
      // Sandboxed code may have caused this, which must not prevent this process from starting.
      log.warn(`Cannot remove all of ${path}, left by a process that has ended: ${error}`);
    }
  });
}

/** Where {@linkcode forEachAbandoned} looks. */
interface AbandonedOptions {
  readonly parent: string;
  /** The user. */
  readonly uid: number | null;
  /**
   * How many folders to skip, of other users or running processes, before it gives up.
   *
   * @default {Infinity}
   */
  readonly maxHeld?: number;
}

/** Visits the folders of this user's processes that were killed before they could remove them. */
export async function forEachAbandoned(
  { parent, uid, maxHeld = Infinity }: AbandonedOptions,
  visit: (path: string) => Promise<void>,
): Promise<void> {
  let held = 0;
  for await (const { name, isDirectory } of Deno.readDir(parent)) {
    if (!isDirectory || !name.startsWith(PREFIX)) continue;
    const root = `${parent}/${name}`;
    using lock = await abandonedLock(root, uid);
    if (lock !== null) await visit(root);
    else if (++held > maxHeld) return;
  }
}

/** Takes the lock of a folder whose process has ended. */
async function abandonedLock(root: string, uid: number | null): Promise<Disposable | null> {
  using stack = new DisposableStack();
  try {
    if ((await Deno.lstat(root)).uid !== uid) return null;
    const path = `${root}/${LOCK}`;
    if (!(await Deno.lstat(path)).isFile) return null;
    const lock = stack.use(await Deno.open(path, { read: true, write: true }));
    if (!await lock.tryLock(true)) return null;
    if (!await isStillAt(path, lock)) return null; // another process has taken the folder over
    const said = await fill(new Uint8Array(MAX_IDENTITY), lock);
    if (new TextDecoder().decode(said) !== await identityOf(root)) return null;
    stack.move();
    return lock;
  } catch (error) {
    // The folder belongs to another program, or another process was faster.
    const isOthers = error instanceof Deno.errors.NotFound ||
      error instanceof Deno.errors.PermissionDenied;
    if (!isOthers) throw error;
    return null;
  }
}

/** Removes a {@linkcode HeldFolder} whose lock the caller has. Code may still write to it for a moment. */
export async function removeHeld(root: string, signal?: AbortSignal): Promise<void> {
  try {
    await emptyFolder(root, { keep: LOCK, signal });
    await Deno.remove(`${root}/${LOCK}`); // last: until then, another process can continue
    await Deno.remove(root);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error; // something else removed it
  }
}
