/**
 * Records that count for as long as the process that wrote them lives: each is a file that its process
 * has locked, and the system takes the lock back when that process dies.
 *
 * @module
 */
import { join } from "node:path";

const RECORD = ".json";

/** Writes a record for this process, readable by its user alone. Disposing removes it. */
export async function holdRecord(folder: string, record: unknown): Promise<AsyncDisposable> {
  const fresh = join(folder, crypto.randomUUID());
  await using parts = new AsyncDisposableStack();
  const file = await Deno.open(fresh, { createNew: true, write: true, mode: 0o600 });
  parts.defer(() => file.close());
  parts.defer(() => removeIfPresent(fresh + RECORD));
  parts.defer(() => removeIfPresent(fresh));
  await file.lock(true);
  await Deno.writeTextFile(fresh, JSON.stringify(record));
  await Deno.rename(fresh, fresh + RECORD); // nobody ever sees it unlocked, or in part
  return parts.move();
}

/** Gives the text of each record whose process lives. What others have left is removed. */
export async function heldRecords(folder: string): Promise<string[]> {
  const texts: string[] = [];
  for (const path of await recordsIn(folder)) {
    try {
      using file = await Deno.open(path, { read: true, write: true });
      if (await file.tryLock(true)) await Deno.remove(path);
      else texts.push(await Deno.readTextFile(path));
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error; // it has ended in between
    }
  }
  return texts;
}

async function recordsIn(folder: string): Promise<string[]> {
  try {
    const entries = await Array.fromAsync(Deno.readDir(folder));
    const files = entries.filter(({ name, isFile }) => isFile && name.endsWith(RECORD));
    return files.map(({ name }) => join(folder, name)).sort();
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

async function removeIfPresent(path: string): Promise<void> {
  try {
    await Deno.remove(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error; // another process was quicker
  }
}
