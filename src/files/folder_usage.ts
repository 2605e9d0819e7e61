import { join } from "node:path";
import { lstatIfPresent } from "./safe.ts";

/** The size and age of a folder. */
interface FolderUsage {
  /** The size of its files in bytes. */
  readonly bytes: number;
  /** When anything in it was last modified, in milliseconds since 1970. */
  readonly changedAt: number;
}

/** Longer paths are skipped, because code can nest folders deeper than the system can name. */
const MAX_PATH = 2000;

/** The most folders to remember. Names are not remembered at all, because code can make millions. */
const MAX_FOLDERS = 100_000;

/** How large a folder is, and when anything in it was last modified, as far as it can be read. */
export async function folderUsage(root: string): Promise<FolderUsage> {
  const usage = { bytes: 0, changedAt: 0 };
  const folders: string[] = [];
  const add = async (path: string): Promise<void> => {
    const info = await lstatIfPresent(path);
    if (info === undefined) return;
    usage.changedAt = Math.max(usage.changedAt, info.mtime?.getTime() ?? Infinity);
    if (!info.isDirectory) usage.bytes += info.size;
    else if (path.length <= MAX_PATH && folders.length < MAX_FOLDERS) folders.push(path);
  };
  await add(root);
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    try {
      for await (const { name } of Deno.readDir(folder)) await add(join(folder, name));
    } catch (error) {
      const { NotADirectory, NotFound, PermissionDenied } = Deno.errors;
      const isClosed = [NotADirectory, NotFound, PermissionDenied]
        .some((closed) => error instanceof closed);
      if (!isClosed) throw error; // closed by code, but still removable
    }
  }
  return usage;
}
