import type { Logger } from "../../log.ts";
import { removeFromWorkspace } from "../../process/remove_tree.ts";
import { PackageFolder } from "../../python/packages.ts";
import { forEachOldSession, KEPT_DAYS } from "./session_folders.ts";

/** Options of {@linkcode SessionCleanup}. */
export interface SessionCleanupOptions {
  readonly workspace: string;
  /** How many folders of ended sessions are kept. */
  readonly keep: number;
  /** Told what could not be removed. */
  readonly log: Logger | undefined;
}

const DAY_MS = 86_400_000;

/** Removes the old folders of ended sessions, one pass at a time. Disposing it ends that. */
export class SessionCleanup implements AsyncDisposable {
  readonly #options: SessionCleanupOptions;
  readonly #stop = new AbortController();
  #pass: Promise<void> = Promise.resolve();
  /** Whether a pass waits for the one that runs. */
  #isDue = false;

  /** @param options Of which workspace, and how many stay. */
  constructor(options: SessionCleanupOptions) {
    this.#options = options;
  }

  /** Begins a pass, after the one that may be under way. */
  begin(): void {
    if (this.#isDue || this.#stop.signal.aborted) return;
    this.#isDue = true;
    this.#pass = this.#pass.then(() => this.#run());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new DOMException("The server ends", "AbortError"));
    await this.#pass;
  }

  async #run(): Promise<void> {
    this.#isDue = false;
    const { workspace, keep, log } = this.#options;
    const { signal } = this.#stop;
    const old = { before: Date.now() - KEPT_DAYS * DAY_MS, keep };
    try {
      await forEachOldSession(workspace, old, async (path) => {
        signal.throwIfAborted();
        try {
          await PackageFolder.remove(path); // of one that was killed
          await removeFromWorkspace(path, workspace, signal);
        } catch (error) {
          signal.throwIfAborted();
          log?.warn(`Cannot remove all of ${path}, of an ended session: ${error}`);
        }
      });
    } catch (error) {
      if (!signal.aborted) log?.warn(`Cannot look for the folders of ended sessions: ${error}`);
    }
  }
}
