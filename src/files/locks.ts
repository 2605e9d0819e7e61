/**
 * Records that count while the process that wrote them lives. Each is a file that its process has
 * locked; the system releases the lock when the process dies.
 *
 * @module
 */
import { join } from "node:path";
import { ifPresent } from "./safe.ts";

const RECORD = ".json";

/** Writes a record for this process, readable only by its user. Disposing it removes the record. */
export async function lockRecord(folder: string, record: unknown): Promise<AsyncDisposable> {
  const fresh = join(folder, crypto.randomUUID());
  await using parts = new AsyncDisposableStack();
  const file = await Deno.open(fresh, { createNew: true, write: true, mode: 0o600 });
  parts.defer(() => file.close());
  parts.defer(() => ifPresent(Deno.remove(fresh + RECORD))); // another process may be quicker
  parts.defer(() => ifPresent(Deno.remove(fresh)));
  await file.lock(true);
  await Deno.writeTextFile(fresh, JSON.stringify(record));
  await Deno.rename(fresh, fresh + RECORD); // nobody ever sees it unlocked or incomplete
  return parts.move();
}

/** Reads the records of living processes, and removes those of others. */
export async function lockedRecords(folder: string): Promise<string[]> {
  const texts: string[] = [];
  for (const path of await recordsIn(folder)) {
    try {
      using file = await Deno.open(path, { read: true, write: true });
      if (await file.tryLock(true)) await Deno.remove(path);
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
