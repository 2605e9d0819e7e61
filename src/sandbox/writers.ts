import { join } from "node:path";
import { z } from "zod";
import { mayUse } from "../base/permission.ts";
import { isInside } from "../process/trusted_path.ts";
import { isState } from "./protect.ts";
import { type Belongings, heldRecords, holdRecord } from "../files/held_records.ts";
import { lockUserFolder } from "../files/safe.ts";
import { isUnwritable, stateFolder } from "../files/user_folders.ts";

/** A sandbox whose programs may write to a folder, from before they start until they have ended. */
interface Writer {
  readonly folder: string;
  /** What of it they cannot touch: mounts keep it, and the folders above it, where they are. */
  readonly kept: ReadonlySet<string>;
}

const writerSchema = z.object({ folder: z.string(), kept: z.array(z.string()) })
  .transform(({ folder, kept }): Writer => ({ folder, kept: new Set(kept) }));

/** What {@linkcode settledPaths} is given. */
export interface SettledPathsOptions {
  /** The folder that the programs of the sandbox may write to, if there is one. */
  readonly writes?: string;
  /** Whether an engine mounts them, by their paths and with the rights of its own user. */
  readonly byEngine?: boolean;
  /** Takes what has to live as long as they do. */
  readonly belongings: Belongings;
}

/**
 * Finds what a sandbox can mount something on: what no program in another sandbox could move away, or
 * put a link in the place of, while it does so. `bwrap` makes an empty file where a link leads that it
 * takes for the place of a mount.
 *
 * What appears in a folder while programs may write there is theirs anyway. It is protected again by
 * the first sandbox that is made while none of them runs. `bwrap` is always given the host's own state:
 * it is a folder, on which nothing is made, and the sandbox is not used if it can be seen in there.
 */
export async function settledPaths(
  paths: readonly string[],
  { writes, byEngine = false, belongings }: SettledPathsOptions,
): Promise<ReadonlySet<string>> {
  // Elsewhere our own sandbox is rules about paths.
  if (Deno.build.os !== "linux" && !byEngine) return new Set(paths);
  const state = stateFolder();
  if (state === undefined || !mayUse(state)) return new Set(paths);
  const folder = join(state, "writers");
  try {
    using _lock = await lockUserFolder(folder);
    const others = (await heldRecords(folder)).map((text) => writerSchema.parse(JSON.parse(text)));
    const settled = paths.filter((path) =>
      (isState(path) && !byEngine) ||
      others.every(({ folder, kept }) => !isInside(path, folder) || kept.has(path))
    );
    if (writes !== undefined) {
      const kept = settled.filter((path) => isInside(path, writes));
      belongings.use(await holdRecord(folder, { folder: writes, kept }));
    }
    return new Set(settled);
  } catch (error) {
    if (isUnwritable(error)) return new Set(paths);
    throw error;
  }
}
