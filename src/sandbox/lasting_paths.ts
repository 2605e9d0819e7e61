import { join, relative } from "node:path";
import { z } from "zod";
import { sha256 } from "../json/digest.ts";
import { mayUse } from "../process/permission.ts";
import { isInside } from "../process/trusted_path.ts";
import { isUnwritable, stateFolder } from "../process/user_folders.ts";

/** What a workspace had when code first could write there, and has had ever since. */
export interface LastingPaths {
  /** The files and folders, of those that were given. */
  readonly paths: readonly string[];
  /** The file that remembers them; `undefined` where none can be kept, and nothing counts. */
  readonly record: string | undefined;
}

const recordSchema = z.object({
  /** Which folder the workspace is, for another one may take its place. */
  workspace: z.string(),
  /** What was there, by its path in the workspace. */
  paths: z.record(z.string(), z.string()),
});

type Entries = z.infer<typeof recordSchema>;

/**
 * Finds what code never could write to. A name says nothing: a sandbox protects what is there when it
 * starts, so what appears or is made anew while code runs may be the code's, also in later sessions.
 *
 * Therefore each sandbox that may write to a workspace, and each look before the first one, leaves a
 * record in the user's state folder, which code does not reach. It can only become smaller.
 */
export async function lastingPaths(
  workspace: string,
  present: readonly string[],
): Promise<LastingPaths> {
  const identity = await identityOf(workspace);
  const state = stateFolder();
  const folder = state === undefined ? undefined : join(state, "protected");
  if (folder === undefined || identity === undefined || !mayUse(folder)) {
    return { paths: [], record: undefined };
  }
  const record = join(folder, `${sha256(workspace).slice(0, 32)}.json`);
  const now: [path: string, identity: string][] = [];
  for (const path of new Set(present)) {
    if (path === workspace || !isInside(path, workspace)) continue;
    const identity = await identityOf(path);
    if (identity !== undefined) now.push([relative(workspace, path), identity]);
  }
  try {
    await Deno.mkdir(folder, { recursive: true, mode: 0o700 });
    using lock = await Deno.open(join(folder, "lock"), { create: true, write: true, mode: 0o600 });
    await lock.lock(true);
    const known = await readRecord(record, identity);
    const lasting = now.filter(([path, identity]) =>
      known === undefined || (Object.hasOwn(known, path) && known[path] === identity)
    );
    if (known === undefined || lasting.length < Object.keys(known).length) {
      await writeRecord(record, { workspace: identity, paths: Object.fromEntries(lasting) });
    }
    return { paths: lasting.map(([path]) => join(workspace, path)), record };
  } catch (error) {
    if (isUnwritable(error)) return { paths: [], record: undefined };
    throw error;
  }
}

/**
 * Tells a file or folder from another one that takes its place. Its inode may be used again, but not
 * with the same time of birth, which no program can set on Linux; on macOS inodes are not used again.
 */
async function identityOf(path: string): Promise<string | undefined> {
  try {
    const { ino, birthtime } = await Deno.lstat(path);
    return ino === null || birthtime === null ? undefined : `${ino} ${birthtime.toISOString()}`;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

/** What is remembered of a workspace, if it is; of another folder in its place nothing is. */
async function readRecord(path: string, workspace: string): Promise<Entries["paths"] | undefined> {
  try {
    const entries = recordSchema.parse(JSON.parse(await Deno.readTextFile(path)));
    return entries.workspace === workspace ? entries.paths : undefined;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    if (error instanceof SyntaxError || error instanceof z.ZodError) return {}; // damaged
    throw error;
  }
}

async function writeRecord(path: string, entries: Entries): Promise<void> {
  const fresh = `${path}.new`;
  await Deno.writeTextFile(fresh, JSON.stringify(entries, null, 2) + "\n", { mode: 0o600 });
  await Deno.rename(fresh, path);
}
