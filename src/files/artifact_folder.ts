import { basename, dirname, join, resolve } from "node:path";
import { mayRead } from "../base/permission.ts";
import { isSettled, PinnedFolder } from "./pinned_folder.ts";

/**
 * A folder that the host writes an execution's files to, created with the first file.
 *
 * It may be in the workspace, where executed code could replace it by a symbolic link, which must
 * not redirect the files. Writing is synchronous, so that a reported path exists, and a flood of
 * output waits for the disk instead of filling the memory.
 */
export class ArtifactFolder {
  readonly #path: string;
  #expected: string | undefined;

  /** @param path The folder, relative to the working directory of this process. */
  constructor(path: string) {
    this.#path = path;
    try {
      this.#expected = expectedRealPath(path); // now, before code that may create links has run
    } catch (error) {
      // Without any files, permission to read here is not needed.
      if (!(error instanceof Deno.errors.NotCapable)) throw error;
    }
  }

  /** A unique path for a file, `<8 hex digits>.<extension>`. The file does not exist yet. */
  newPath(extension: string): string {
    return join(this.#path, `${crypto.randomUUID().slice(0, 8)}.${extension}`);
  }

  /** Creates a file with a unique name. */
  create(extension: string): { path: string; file: Deno.FsFile } {
    for (;;) {
      const path = this.newPath(extension);
      try {
        return { path, file: this.#createNew(path) };
      } catch (error) {
        if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
      }
    }
  }

  /** Writes a whole new file and returns its path. */
  write(extension: string, bytes: Uint8Array): string {
    const { path, file } = this.create(extension);
    using _file = file;
    writeAll(file, bytes);
    return path;
  }

  /** Writes a whole new file at a path of {@linkcode newPath}. */
  writeAt(path: string, bytes: Uint8Array): void {
    using file = this.#createNew(path);
    writeAll(file, bytes);
  }

  /** Removes a file that was created here. */
  remove(path: string): void {
    using folder = this.#open();
    Deno.removeSync(join(folder.path, basename(path)));
  }

  #createNew(path: string): Deno.FsFile {
    using folder = this.#open();
    const name = basename(path);
    // createNew follows no link in the last component
    const file = Deno.openSync(join(folder.path, name), { write: true, createNew: true });
    this.#requireIn(folder, name, file);
    return file;
  }

  /** Creates the folder if it is missing, and opens it if no link redirects it. */
  #open(): PinnedFolder {
    const real = this.#expected ??= expectedRealPath(this.#path);
    this.#requireNoLink(real);
    Deno.mkdirSync(real, { recursive: true });
    const folder = PinnedFolder.at(real);
    if (!folder.isHeld) this.#requireNoLink(real);
    return folder;
  }

  /** Checks that a new file is in a folder that is not held open: code may have put a link in its place. */
  #requireIn({ path, isHeld }: PinnedFolder, name: string, file: Deno.FsFile): void {
    if (isHeld) return;
    try {
      this.#requireNoLink(path);
      const [opened, there] = [file.statSync(), Deno.lstatSync(join(path, name))];
      if (opened.ino !== there.ino || opened.dev !== there.dev) throw this.#replaced();
    } catch (error) {
      file.close();
      throw error instanceof Deno.errors.NotFound ? this.#replaced(error) : error;
    }
  }

  #replaced(cause?: Error): Error {
    return new Error(`Cannot write to ${this.#path}: it was replaced in the meantime`, { cause });
  }

  /** Checks each folder of a path without following links: code's can lead through thousands of them. */
  #requireNoLink(path: string): void {
    const link = foldersOf(path).find((folder) => mayRead(folder) && isLink(folder));
    if (link === undefined) return;
    throw new Error(
      `Cannot write to ${this.#path}: ${link} is a symbolic link; remove it or choose another folder`,
    );
  }
}

/** Writes all bytes, in several writes if necessary. */
export function writeAll(
  file: { writeSync(bytes: Uint8Array): number },
  bytes: Uint8Array,
): void {
  for (let rest = bytes; rest.length > 0;) rest = rest.subarray(file.writeSync(rest));
}

/** A folder and the folders around it, the outermost one first. */
function foldersOf(path: string): string[] {
  const above = dirname(path);
  return above === path ? [] : [...foldersOf(above), path];
}

function isLink(path: string): boolean {
  try {
    return Deno.lstatSync(path).isSymlink;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

/**
 * The real path of a folder: links above it are followed, but it must not be one itself. In a
 * workspace, none are followed, because code of an earlier session may have made them.
 */
function expectedRealPath(path: string): string {
  const absolute = resolve(path);
  if (isSettled(absolute)) return absolute;
  const missing: string[] = [];
  for (let folder = absolute;;) {
    const parent = dirname(folder);
    missing.unshift(folder.slice(parent.length).replace(/^[\\/]+/, ""));
    try {
      return join(Deno.realPathSync(parent), ...missing);
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound) || parent === folder) throw error;
      folder = parent;
    }
  }
}
