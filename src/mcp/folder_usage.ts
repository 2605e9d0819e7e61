import { join } from "node:path";
import { lstatIfPresent } from "./hostile_files.ts";

/** What a folder takes. */
export interface FolderUsage {
  /** The size of its files. */
  readonly bytes: number;
  /** When something in it was changed last, in milliseconds since 1970. */
  readonly changedAt: number;
}

/** Longer paths are not looked at: code makes deeper folders than the system can name. */
const MAX_PATH = 2000;

/**
 * How large a folder is, and when something in it was changed last, as far as it can be looked at.
 * Links are not followed.
 */
export async function folderUsage(root: string): Promise<FolderUsage> {
  const usage = { bytes: 0, changedAt: 0 };
  const paths = [root];
  for (let path = paths.pop(); path !== undefined; path = paths.pop()) {
    const info = await lstatIfPresent(path);
    if (info === undefined) continue;
    if (!info.isDirectory) usage.bytes += info.size;
    usage.changedAt = Math.max(usage.changedAt, info.mtime?.getTime() ?? Infinity);
    if (!info.isDirectory || path.length > MAX_PATH) continue;
    try {
      for await (const { name } of Deno.readDir(path)) paths.push(join(path, name));
    } catch (error) {
      const { NotADirectory, NotFound, PermissionDenied } = Deno.errors;
      const isClosed = [NotADirectory, NotFound, PermissionDenied]
        .some((closed) => error instanceof closed);
      if (!isClosed) throw error; // closed by code, which can be removed all the same
    }
  }
  return usage;
}
