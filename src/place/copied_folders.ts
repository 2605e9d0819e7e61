import { Mutex } from "../base/mutex.ts";
import { PinnedFolder } from "../files/pinned_folder.ts";
import { ifPresent, readHostileFile } from "../files/safe.ts";
import { sha256 } from "../json/digest.ts";
import { archiveOf } from "./boot.ts";
import { PathError, type WorkspaceFiles } from "./workspace_files.ts";

/** A folder of this machine that is copied to the place of kernels. */
interface CopiedFolder {
  readonly here: string;
  readonly there: string;
  /** The only folder in the copy, which then holds everything that was copied. */
  readonly within?: string | undefined;
}

/** The folders to copy to the place of kernels if this machine's files are not visible there. */
export interface CopiedFolders {
  /** The generated modules, unless they are visible. They are imported from the folder there. */
  readonly modules?: CopiedFolder;
  /** The folder here with the stubs for the type checker. */
  readonly stubs: string;
}

const MAX_FILES = 20_000;
const MAX_DEPTH = 32;
const MAX_BYTES = 64 << 20;

/** The time limit for copying a folder. */
const COPY_MS = 300_000;

/**
 * Copies a folder to the place of kernels if it, or possibly its copy, has changed. The link's
 * failures are reported elsewhere.
 */
export type CopyFolder = (folder: CopiedFolder, isChanged?: boolean) => Promise<void>;

/** Makes a function that copies folders, one after the other, to the place of these files. */
export function folderCopier(place: WorkspaceFiles): CopyFolder {
  const turns = new Mutex();
  const known = new Map<string, string>();
  return async ({ here, there, within }, isChanged = false) => {
    using _turn = await turns.acquire();
    const versions: string[] = [];
    for await (const { path, at } of entriesIn(here)) {
      const { ino, size, mtime } = await ifPresent(Deno.lstat(at)) ?? {};
      versions.push(`${path} ${ino} ${size} ${mtime?.getTime()}`);
      if (versions.length > MAX_FILES) throw tooLarge(here);
    }
    const version = sha256(versions.sort().join("\n"));
    if (!isChanged && version === known.get(there)) return;
    const files = [];
    let size = 0;
    for await (const { path, at } of entriesIn(here)) {
      const text = await readHostileFile(at);
      if (text === undefined) continue; // it was just replaced, which the next copy notices
      size += text.length;
      if (size > MAX_BYTES || files.length === MAX_FILES) throw tooLarge(here);
      files.push({ path: within === undefined ? path : `${within}/${path}`, text });
    }
    const deadline = AbortSignal.timeout(COPY_MS);
    try {
      await place.replaceFolder(there, await archiveOf(files), deadline);
      known.set(there, version);
    } catch (error) {
      const why = deadline.aborted
        ? `it took more than ${COPY_MS / 60_000} min`
        : error instanceof PathError && error.reason !== "unanswered"
        ? error.message
        : undefined; // the link is gone
      if (why !== undefined) throw new Error(`Cannot copy ${here} to the kernel: ${why}`);
    }
  };
}

interface Entry {
  readonly path: string;
  /** A path that leads to it during the visit, even if somebody replaces a folder. */
  readonly at: string;
}

/**
 * Visits the files of a folder in which code of the surrounding workspace may replace folders with
 * links.
 */
async function* entriesIn(root: string): AsyncGenerator<Entry> {
  using folder = await ifPresent(
    Promise.try(() => PinnedFolder.open(root, { create: false })),
  );
  if (folder !== undefined) yield* entriesBelow(folder, "");
}

async function* entriesBelow(folder: PinnedFolder, above: string): AsyncGenerator<Entry> {
  if (above.split("/").length > MAX_DEPTH) return; // each level is held open, and nothing of ours is there
  for await (const { name, isDirectory, isFile } of Deno.readDir(folder.path)) {
    const path = `${above}${name}`;
    if (isFile) yield { path, at: `${folder.path}/${name}` };
    if (!isDirectory || name === "__pycache__") continue;
    using below = await ifPresent(Promise.try(() => folder.child(name, { create: false })));
    if (below !== undefined) yield* entriesBelow(below, `${path}/`);
  }
}

function tooLarge(folder: string): Error {
  return new Error(
    `Cannot copy ${folder} to the kernel: it has more than ${MAX_FILES} files or ` +
      `${MAX_BYTES >> 20} MiB; unregister MCP servers that you do not need`,
  );
}
