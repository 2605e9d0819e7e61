/**
 * Records that count for as long as the process that wrote them lives: each is a file that its process
 * has locked, and the system takes the lock back when that process dies.
 *
 * @module
 */
import { join } from "node:path";

/** A file that this process has locked. Disposing removes what it stands for. */
export interface Held extends AsyncDisposable {
  /** Its path. */
  readonly lock: string;
  /** Leaves it to another process, which has put a locked file of its own in its place. */
  leave(): void;
}

/** Takes what lives as long as something else. */
export interface Belongings {
  /** Takes something. */
  use(held: Held): unknown;
}

/** What of this process another one will take over, as long as that has not. */
export class HeldTogether implements Belongings, AsyncDisposable {
  readonly #held: Held[] = [];
  #left = false;

  /** Takes something. */
  use(held: Held): void {
    this.#held.push(held);
  }

  /** The files that the other process has to lock. */
  get locks(): string[] {
    return this.#held.map(({ lock }) => lock);
  }

  /** The other process has them. */
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

/** Writes a record for this process, readable by its user alone. Disposing removes it. */
export async function holdRecord(folder: string, record: unknown): Promise<Held> {
  const fresh = join(folder, crypto.randomUUID());
  await using parts = new AsyncDisposableStack();
  const file = await Deno.open(fresh, { createNew: true, write: true, mode: 0o600 });
  parts.defer(() => file.close());
  parts.defer(() => removeIfPresent(fresh + RECORD));
  parts.defer(() => removeIfPresent(fresh));
  await file.lock(true);
  await Deno.writeTextFile(fresh, JSON.stringify(record));
  await Deno.rename(fresh, fresh + RECORD); // nobody ever sees it unlocked, or in part
  const held = parts.move();
  return {
    lock: fresh + RECORD,
    leave: () => file.close(),
    [Symbol.asyncDispose]: () => held.disposeAsync(),
  };
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
