import { dirname, join } from "node:path";
import { ConfigError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { DAY_MS } from "../../base/numbers.ts";
import { randomToken } from "../../base/tokens.ts";
import { isRunning, type ListedSession, listSessions } from "../../executor/durable.ts";
import { folderUsage } from "../../files/folder_usage.ts";
import { removeTree } from "../../files/remove_tree.ts";
import { ifPresent, isPlainFolder, lstatIfPresent } from "../../files/safe.ts";
import { isUnwritable, UNWRITABLE } from "../../files/user_folders.ts";
import { discardState, makeWorkspaceState, sessionsPath } from "../../files/workspace_state.ts";
import { PackageFolder } from "../../python/packages.ts";

/** The days without a change after which the folder of an ended session is old. */
export const KEPT_DAYS = 30;
/** The number of ended sessions' folders that a server keeps for each owner. */
export const KEPT_FOLDERS = 100;

/** The folder of a session. Disposing marks the session as ended, and keeps the folder. */
export interface SessionFolder extends Disposable {
  readonly path: string;
  /** Sets the owner of a session that was started ahead. */
  belongTo(owner: string): void;
}

/** Which folders of ended sessions are old. */
interface OldSessions {
  /** Folders without a change since this time, in milliseconds since 1970. */
  readonly before: number;
  /** And all but this many recent ones of each owner; by default, all are kept. */
  readonly keep?: number;
}

const MAX_OWNER = 100;
/** The owner of sessions that were started ahead. Nobody needs their folders once they have ended. */
export const NOBODY = "nobody";

/**
 * The file that a session's process locks, beside its folder: its time is the end, its text the
 * owner.
 */
export function lockOf(session: string): string {
  return `${session}.in-use`;
}

/** Creates the folder of a workspace's sessions. */
export async function makeSessionFolders(workspace: string): Promise<string> {
  try {
    await makeWorkspaceState(workspace);
    const folders = await sessionsPath(workspace);
    if (folders !== undefined) {
      await Deno.mkdir(folders, { recursive: true, mode: 0o700 });
      return folders;
    }
  } catch (error) {
    if (!isUnwritable(error)) throw error;
  }
  throw new ConfigError(`Cannot keep the folders of sessions: ${UNWRITABLE}`);
}

/** The durable sessions of a workspace's clients; the status of others is not requested. */
export async function durableSessions(workspace: string): Promise<ListedSession[]> {
  const folders = await sessionsPath(workspace);
  return await listSessions(({ workspace }) => dirname(workspace) === folders);
}

/** Creates a session's folder, or reopens it if the session continues. */
export async function makeSessionFolder(
  workspace: string,
  id: string,
  { owner, continues = false }: { readonly owner: string; readonly continues?: boolean },
): Promise<SessionFolder> {
  const path = join(await makeSessionFolders(workspace), id);
  if (!continues) await Deno.mkdir(path);
  const making = `${lockOf(path)}.${randomToken().slice(0, 12)}`;
  const lock = await Deno.open(making, { createNew: true, write: true, mode: 0o600 });
  try {
    await lock.lock(true);
    write(lock, owner);
    await Deno.rename(making, lockOf(path)); // it is never seen unlocked
  } catch (error) {
    lock.close();
    throw error;
  }
  return {
    path,
    belongTo: (owner) => write(lock, owner),
    [Symbol.dispose]() {
      const now = new Date();
      lock.utimeSync(now, now);
      lock.close();
    },
  };
}

function write(lock: Deno.FsFile, owner: string): void {
  lock.truncateSync();
  lock.seekSync(0, Deno.SeekMode.Start);
  lock.writeSync(new TextEncoder().encode(owner));
}

/** Visits the old folders of a workspace's ended sessions. Returns how many sessions are in use. */
export async function forEachOldSession(
  workspace: string,
  { before, keep = Infinity }: OldSessions,
  visit: (path: string) => Promise<void>,
): Promise<number> {
  const sessions: { readonly path: string; readonly endedAt: number }[] = [];
  const folders = await sessionsPath(workspace);
  if (folders === undefined || !await isPlainFolder(folders)) return 0;
  for await (const { name, isDirectory } of Deno.readDir(folders)) {
    const path = join(folders, name);
    const info = isDirectory && (await lstatIfPresent(lockOf(path)) ?? await lstatIfPresent(path));
    if (info) sessions.push({ path, endedAt: info.mtime?.getTime() ?? 0 });
  }
  sessions.sort((a, b) => b.endedAt - a.endedAt);
  const durable = await durableSessions(workspace);
  const lasting = new Set(durable.filter(isRunning).map(({ record }) => record?.workspace));
  let live = 0;
  const ended = new Map<string, number>();
  for (const { path, endedAt } of sessions) {
    using lease = new DisposableStack();
    const state = lasting.has(path) ? "live" : await takeEnded(lockOf(path), lease);
    if (state === "live") {
      live++;
      continue;
    }
    let isSurplus = false;
    if (typeof state === "object") {
      const count = (ended.get(state.owner) ?? 0) + 1;
      ended.set(state.owner, count);
      isSurplus = count > keep || state.owner === NOBODY;
    }
    if (isSurplus || endedAt < before && (await folderUsage(path)).changedAt < before) {
      await visit(path);
    }
  }
  return live;
}

/** Removes the folder of a session that has ended, with its state. */
export async function removeSession(path: string, signal?: AbortSignal): Promise<void> {
  await discardState(path);
  await ifPresent(Deno.remove(lockOf(path)));
  await removeTree(path, { through: join(path, "../../removed"), signal });
}

/** Determines whether a session has ended, and if so, keeps others from cleaning it up. */
async function takeEnded(
  path: string,
  lease: DisposableStack,
): Promise<"live" | "unknown" | { readonly owner: string }> {
  // Without the file, the session is being created.
  if (!(await lstatIfPresent(path))?.isFile) return "unknown";
  const lock = await ifPresent(Deno.open(path, { read: true, write: true }));
  if (lock === undefined) return "unknown";
  lease.use(lock);
  if (!await lock.tryLock(true)) return "live";
  const owner = new Uint8Array(MAX_OWNER);
  return { owner: new TextDecoder().decode(owner.subarray(0, await lock.read(owner) ?? 0)) };
}

/** Removes the old folders of ended sessions, one pass at a time. Disposing stops it. */
export class SessionCleanup implements AsyncDisposable {
  readonly #workspace: string;
  readonly #log: Logger;
  readonly #stop = new AbortController();
  #pass: Promise<void> = Promise.resolve();
  /** Whether a pass waits for the current one. */
  #isDue = false;

  constructor(workspace: string, log: Logger) {
    this.#workspace = workspace;
    this.#log = log;
  }

  /** Starts a pass after the current one. */
  begin(): void {
    if (this.#isDue || this.#stop.signal.aborted) return;
    this.#isDue = true;
    this.#pass = this.#pass.then(() => this.#run());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new DOMException("The server is stopping", "AbortError"));
    await this.#pass;
  }

  async #run(): Promise<void> {
    this.#isDue = false;
    const { signal } = this.#stop;
    const old = { before: Date.now() - KEPT_DAYS * DAY_MS, keep: KEPT_FOLDERS };
    try {
      await forEachOldSession(this.#workspace, old, async (path) => {
        signal.throwIfAborted();
        try {
          await PackageFolder.remove(path); // of a session that was killed
          await removeSession(path, signal);
        } catch (error) {
          signal.throwIfAborted();
          this.#log.warn(`Cannot remove all of ${path}, left by an ended session: ${error}`);
        }
      });
    } catch (error) {
      if (!signal.aborted) {
        this.#log.warn(`Cannot look for the folders of ended sessions: ${error}`);
      }
    }
  }
}
