import { z } from "zod";
import { isInside } from "../process/trusted_path.ts";
import { isState } from "./protect.ts";
import { type Belongings, heldRecords, holdRecord } from "../files/held_records.ts";
import { lockUserFolder } from "../files/safe.ts";
import { isUnwritable, usableState } from "../files/user_folders.ts";

/** A sandbox whose programs may write to a folder, from before they start until they have ended. */
interface Writer {
  readonly folder: string;
  /** The paths in it that they cannot touch: mounts keep these and their parent folders in place. */
  readonly kept: ReadonlySet<string>;
}

const writerSchema = z.object({ folder: z.string(), kept: z.array(z.string()) })
  .transform(({ folder, kept }): Writer => ({ folder, kept: new Set(kept) }));

/**
 * The sandboxes whose programs may write to folders now; `undefined` if that cannot be known. Look
 * before you look for paths: programs that end in between may have changed what you find.
 */
export async function runningWriters(): Promise<readonly Writer[] | undefined> {
  const folder = usableState("writers");
  if (folder === undefined) return undefined;
  try {
    using _lock = await lockUserFolder(folder);
    return await readWriters(folder);
  } catch (error) {
    if (isUnwritable(error)) return undefined;
    throw error;
  }
}

async function readWriters(folder: string): Promise<Writer[]> {
  return (await heldRecords(folder)).map((text) => writerSchema.parse(JSON.parse(text)));
}

/** Options of {@linkcode mountablePaths}. */
interface MountablePathsOptions {
  /** What {@linkcode runningWriters} gave before the paths were looked for. */
  readonly before: readonly Writer[] | undefined;
  /** The folder that the sandbox's programs may write to, if any. */
  readonly writes?: string;
  /** Whether an engine mounts them, by their paths and as another user. */
  readonly byEngine?: boolean;
  /** Takes what must live as long as these programs. */
  readonly belongings: Belongings;
}

/**
 * Finds the paths on which a sandbox can safely mount something: those that no program in another
 * sandbox could move or replace by a link in the meantime. If a mount point is a link, `bwrap`
 * creates an empty file at its target.
 *
 * Anything that appears in a folder while programs may write there belongs to them anyway. The
 * first sandbox that starts while none of them runs protects it again. `bwrap` always gets the host's
 * own state: it is a folder, so nothing is created at a target, and a sandbox in which it is visible
 * is not used.
 */
export async function mountablePaths(
  paths: readonly string[],
  { before = [], writes, byEngine = false, belongings }: MountablePathsOptions,
): Promise<ReadonlySet<string>> {
  // On other systems, our own sandboxes are path rules
  if (Deno.build.os !== "linux" && !byEngine) return new Set(paths);
  const folder = usableState("writers");
  if (folder === undefined) return new Set(paths);
  try {
    using _lock = await lockUserFolder(folder);
    const others = [...before, ...await readWriters(folder)];
    const mountable = paths.filter((path) =>
      (isState(path) && !byEngine) ||
      others.every(({ folder, kept }) => !isInside(path, folder) || kept.has(path))
    );
    if (writes !== undefined) {
      const kept = mountable.filter((path) => isInside(path, writes));
      belongings.use(await holdRecord(folder, { folder: writes, kept }));
    }
    return new Set(mountable);
  } catch (error) {
    if (isUnwritable(error)) return new Set(paths);
    throw error;
  }
}
