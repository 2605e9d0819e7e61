/**
 * Records that count while the process that wrote them lives. Each is a file that its process has
 * locked; the system releases the lock when the process dies.
 *
 * @module
 */
import { join } from "node:path";
import { ifPresent, isStillAt } from "./safe.ts";

/** A file that this process has locked. Disposing it removes the file's subject, such as a folder. */
export interface FileLock extends AsyncDisposable {
  readonly lock: string;
  /** Hands it over to another process, which has put its own locked file in its place. */
  leave(): void;
}

/** The locked files that another process may take over. Disposing it removes the others. */
export class LockGroup implements AsyncDisposable {
  readonly #held: FileLock[] = [];
  #left = false;

  /** Takes a locked file. */
  use(held: FileLock): void {
    this.#held.push(held);
  }

  /** The files that the other process must lock. */
  get locks(): string[] {
    return this.#held.map(({ lock }) => lock);
  }

  /** Hands everything over to the other process. */
  leave(): void {
    this.#left = true;
    for (const held of this.#held) held.leave();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#left) return;
    for (const held of this.#held.toReversed()) await held[Symbol.asyncDispose]();
  }
}

const RECORD = ".json";

/** Writes a record for this process, readable only by its user. Disposing it removes the record. */
export async function lockRecord(folder: string, record: unknown): Promise<FileLock> {
  const fresh = join(folder, crypto.randomUUID());
  await using parts = new AsyncDisposableStack();
  const file = await Deno.open(fresh, { createNew: true, write: true, mode: 0o600 });
  parts.defer(() => file.close());
  parts.defer(() => ifPresent(Deno.remove(fresh + RECORD))); // another process may be quicker
  parts.defer(() => ifPresent(Deno.remove(fresh)));
  await file.lock(true);
  await Deno.writeTextFile(fresh, JSON.stringify(record));
  await Deno.rename(fresh, fresh + RECORD); // nobody ever sees it unlocked or incomplete
  const held = parts.move();
  return {
    lock: fresh + RECORD,
    leave: () => file.close(),
    [Symbol.asyncDispose]: () => held.disposeAsync(),
  };
}

/** Reads the records of living processes, and removes those of others. */
export async function lockedRecords(folder: string): Promise<string[]> {
  const texts: string[] = [];
  for (const path of await recordsIn(folder)) {
    try {
      using file = await Deno.open(path, { read: true, write: true });
      // The one that could be locked may be that of a process that has just handed over to another.
      const isOver = await file.tryLock(true) && await isStillAt(path, file);
      if (isOver) await Deno.remove(path);
      else texts.push(await Deno.readTextFile(path));
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error; // it has ended in the meantime
    }
  }
  return texts;
}

async function recordsIn(folder: string): Promise<string[]> {
  const entries = await ifPresent(Array.fromAsync(Deno.readDir(folder))) ?? [];
  const files = entries.filter(({ name, isFile }) => isFile && name.endsWith(RECORD));
  return files.map(({ name }) => join(folder, name)).sort();
}
