import { basename, dirname, join } from "node:path";
import { ConfigError } from "../base/errors.ts";
import { type Logger, silentLogger } from "../base/log.ts";
import { messageOf } from "../base/message_of.ts";
import { hostEnv, mayUse } from "../base/permission.ts";
import { ownId, whyCode } from "../process/trusted_path.ts";
import { emptyFolder } from "./remove_tree.ts";
import { ifPresent, isStillAt, lstatIfPresent } from "./safe.ts";
import { cacheFolder } from "./user_folders.ts";

/**
 * An empty folder in which to start a third-party program. Disposing it removes it.
 *
 * It must not be the workspace, where sandboxed code writes: programs look for packages, modules and settings
 * in their working directory and its parents, and execute or obey what they find.
 */
export class PrivateFolder implements AsyncDisposable {
  /** The folder, without symbolic links in its path. */
  readonly path: string;
  readonly #held: HeldFolder;

  private constructor(held: HeldFolder) {
    this.#held = held;
    this.path = `${held.path}/empty`;
  }

  static async create(log: Logger = silentLogger): Promise<PrivateFolder> {
    await using parts = new AsyncDisposableStack();
    const folder = new PrivateFolder(parts.use(await HeldFolder.create({ log })));
    await Deno.mkdir(folder.path);
    parts.move();
    return folder;
  }

  /** Removes the folder and its contents. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#held[Symbol.asyncDispose]();
  }
}

/**
 * The parents of the folders of running processes, the best first. The user's cache comes first: folders for
 * temporary files may be small, closed to programs (`noexec`), or in the workspace.
 */
export function runFolders(): readonly string[] {
  const cache = cacheFolder();
  const temporary = [hostEnv("TMPDIR") || "/tmp", "/tmp"];
  const user = ownId() ?? hostEnv("USER") ?? "user";
  return [
    ...(cache === undefined ? [] : [join(cache, "run")]),
    ...new Set(temporary.map((folder) => join(folder, `ipybox-${user}`))),
  ];
}

/** The {@linkcode runFolders} that this user owns: others can make one in `/tmp`, with links to the user's. */
export async function ownRunFolders(): Promise<string[]> {
  const found = await Promise.all(
    runFolders().map(async (path) => {
      const info = await lstatIfPresent(path);
      return info?.isDirectory && info.uid === Deno.uid() ? [path] : [];
    }),
  );
  return found.flat();
}

/** The locked file in each folder. */
const LOCK = "lock";

/**
 * The longest path of a folder, in bytes: sockets have paths of at most 107, and those of the sandbox
 * runtime, such as `host/proxy/claude-socks-0123456789abcdef.sock`, have 46 of them.
 */
const MAX_PATH = 61;

/** How long to keep removing files while code that was not stopped still writes. */
const REMOVE_MS = 10 * 60_000;
/** How long a start may be delayed by leftovers of killed processes. The next start continues. */
const SWEEP_MS = 10_000;

/** Options of {@linkcode HeldFolder.create}. */
interface HeldFolderOptions {
  /** The folders to create it in, the best first. */
  readonly parents?: readonly string[];
  /** Receives leftovers of killed processes that could not be removed. */
  readonly log?: Logger;
}

/** A new folder that nobody else can read. The next one beside it removes the folders of dead processes. */
export class HeldFolder implements AsyncDisposable {
  /** The folder, without symbolic links in its path. Sockets in it have paths that are short enough. */
  readonly path: string;
  readonly #lock: Disposable;
  #left = false;

  private constructor(path: string, lock: Disposable) {
    this.path = path;
    this.#lock = lock;
  }

  /** Creates a folder, and removes the folders of dead processes. */
  static async create(
    { parents = runFolders(), log = silentLogger }: HeldFolderOptions = {},
  ): Promise<HeldFolder> {
    const usable = parents.filter(mayUse);
    const problems: string[] = [];
    // If none may be used, an error names the missing flag.
    for (const parent of usable.length > 0 ? usable : parents.slice(0, 1)) {
      try {
        await using parts = new AsyncDisposableStack();
        const path = await makeFolder(parent);
        parts.defer(() => Deno.remove(path, { recursive: true }));
        const lock = parts.use(await lockFolder(path));
        await keepToUser(parent, { made: basename(path), lock });
        const folder = new HeldFolder(path, lock);
        await removeAbandoned(dirname(path), log);
        parts.move();
        return folder;
      } catch (error) {
        if (error instanceof Deno.errors.NotCapable) throw error;
        problems.push(`${parent}: ${messageOf(error)}`);
      }
    }
    throw new ConfigError(
      `Cannot keep private files in any of these folders: ${problems.join("; ")}. ` +
        "Set XDG_CACHE_HOME to a folder that you can write to, with a short path",
    );
  }

  /** The file that this process has locked. */
  get lock(): string {
    return `${this.path}/${LOCK}`;
  }

  /** Hands the folder over to another process. */
  leave(): void {
    this.#left = true;
    this.#lock[Symbol.dispose]();
  }

  /** Removes the folder, whatever was done to it, unless another process has it. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#left) return;
    using _lock = this.#lock;
    await removeHeld(this.path, AbortSignal.timeout(REMOVE_MS));
  }
}

async function makeFolder(parent: string): Promise<string> {
  const why = await whyCode(parent);
  if (why !== undefined) throw new Error(why);
  await Deno.mkdir(parent, { recursive: true, mode: 0o700 });
  const path = `${await Deno.realPath(parent)}/${crypto.randomUUID().slice(0, 8)}`;
  if (new TextEncoder().encode(path).length > MAX_PATH) {
    throw new Error("its path is too long for sockets");
  }
  await Deno.mkdir(path, { mode: 0o700 });
  return path;
}

/**
 * Checks our folder as ssh checks `~/.ssh`: its owner and mode, but nothing above it. In `/tmp`, another
 * user may have made it, or a link, and may replace what is made there. The open lock is certainly ours.
 */
async function keepToUser(
  folder: string,
  { made, lock }: { readonly made: string; readonly lock: Deno.FsFile },
): Promise<void> {
  const [{ uid }, own] = [await Deno.lstat(folder), await lock.stat()];
  if (uid !== own.uid) throw new Error("it belongs to another user");
  const { mode } = await Deno.stat(folder); // it may be a link of the user's
  if (((mode ?? 0) & 0o077) !== 0) await Deno.chmod(folder, 0o700);
  if (!await isStillAt(`${folder}/${made}/${LOCK}`, lock)) throw new Error("it was replaced");
}

/** Locks a folder. The system releases the lock when this process dies. */
async function lockFolder(root: string): Promise<Deno.FsFile> {
  const lock = await Deno.open(`${root}/locking`, { createNew: true, write: true, mode: 0o600 });
  try {
    await lock.lock(true);
    await Deno.rename(`${root}/locking`, `${root}/${LOCK}`); // nobody ever sees it unlocked
    return lock;
  } catch (error) {
    lock.close();
    throw error;
  }
}

/** Removes the folders of this user's processes that were killed before they could. */
async function removeAbandoned(parent: string, log: Logger): Promise<void> {
  const signal = AbortSignal.timeout(SWEEP_MS);
  await forEachAbandoned(parent, async (path) => {
    if (signal.aborted) return;
    try {
      await removeHeld(path, signal);
    } catch (error) {
      // Sandboxed code may have caused this, which must not prevent this process from starting.
      log.warn(`Cannot remove all of ${path}, left by a process that has ended: ${error}`);
    }
  });
}

/** Visits the folders of this user's processes that were killed before they could remove them. */
export async function forEachAbandoned(
  parent: string,
  visit: (path: string) => Promise<void>,
): Promise<void> {
  const entries = await ifPresent(Array.fromAsync(Deno.readDir(parent))) ?? [];
  for (const { name, isDirectory } of entries) {
    if (!isDirectory) continue; // a link leads to something that is not ours
    using lock = await abandonedLock(`${parent}/${name}/${LOCK}`);
    if (lock !== undefined) await visit(`${parent}/${name}`);
  }
}

/** Takes the lock of a folder whose process has ended. */
async function abandonedLock(path: string): Promise<Disposable | undefined> {
  using stack = new DisposableStack();
  try {
    const lock = stack.use(await Deno.open(path, { read: true, write: true }));
    if (!await lock.tryLock(true)) return undefined;
    if (!await isStillAt(path, lock)) return undefined; // another process has taken the folder over
    stack.move();
    return lock;
  } catch (error) {
    // It has only just been made, another process was faster, or it is not one of ours.
    const { NotADirectory, NotFound, PermissionDenied } = Deno.errors;
    const isOthers = [NotADirectory, NotFound, PermissionDenied].some((kind) =>
      error instanceof kind
    );
    if (!isOthers) throw error;
    return undefined;
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
