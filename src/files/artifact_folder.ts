import { basename, dirname, isAbsolute, join } from "node:path";

/**
 * A folder that the host writes an execution's files into, created with the first file.
 *
 * It may lie in the workspace, which executed code can write to, so a symbolic link that was put in
 * its place must not take the files elsewhere. Writing is synchronous: a path that is reported
 * exists, and a flood of output waits for the disk instead of filling the memory.
 */
export class ArtifactFolder {
  readonly #path: string;
  #expected: string | undefined;

  /** @param path The folder; relative to the working directory of this process. */
  constructor(path: string) {
    this.#path = path;
    try {
      this.#expected = expectedRealPath(path); // now, before code that may plant links has run
    } catch (error) {
      // Who never gets a file need not grant the permission to read here.
      if (!(error instanceof Deno.errors.NotCapable)) throw error;
    }
  }

  /** Creates a file with a unique name, `<8 hex digits>.<extension>`. */
  create(extension: string): { path: string; file: Deno.FsFile } {
    const real = this.#open();
    for (;;) {
      const name = `${crypto.randomUUID().slice(0, 8)}.${extension}`;
      try {
        const file = this.#createIn(real, name);
        return { path: join(this.#path, name), file };
      } catch (error) {
        if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
      }
    }
  }

  /** Writes a whole file and returns its path. */
  write(extension: string, bytes: Uint8Array): string {
    const { path, file } = this.create(extension);
    try {
      writeAll(file, bytes);
    } finally {
      file.close();
    }
    return path;
  }

  /** Removes a file that {@linkcode create} made. */
  remove(path: string): void {
    Deno.removeSync(join(this.#open(), basename(path)));
  }

  /**
   * Opens a new file that is known to be in the folder. Code may have put a link in the folder's place
   * since it was looked at; then an empty file is all that it leads elsewhere.
   */
  #createIn(real: string, name: string): Deno.FsFile {
    const path = join(real, name);
    // `createNew` follows no link in the last component.
    const file = Deno.openSync(path, { write: true, createNew: true });
    try {
      this.#check(dirname(Deno.realPathSync(path)), real);
      const [opened, there] = [file.statSync(), Deno.lstatSync(path)];
      if (opened.ino === there.ino && opened.dev === there.dev) return file;
      throw new Error(`Cannot write to ${this.#path}: it was replaced in the meantime`);
    } catch (error) {
      file.close();
      if (!(error instanceof Deno.errors.NotFound)) throw error;
      throw new Error(`Cannot write to ${this.#path}: it was replaced in the meantime`, {
        cause: error,
      });
    }
  }

  /** Creates the folder where it is missing, and checks that it is where it was said to be. */
  #open(): string {
    const expected = this.#expected ??= expectedRealPath(this.#path);
    this.#check(expectedRealPath(this.#path), expected);
    Deno.mkdirSync(expected, { recursive: true });
    this.#check(Deno.realPathSync(expected), expected);
    return expected;
  }

  #check(real: string, expected: string): void {
    if (real === expected) return;
    throw new Error(
      `Cannot write to ${this.#path}: a symbolic link leads to ${real}; remove it or choose another folder`,
    );
  }
}

/** Writes all bytes; a single write may take only some. */
export function writeAll(
  file: { writeSync(bytes: Uint8Array): number },
  bytes: Uint8Array,
): void {
  for (let rest = bytes; rest.length > 0;) rest = rest.subarray(file.writeSync(rest));
}

/** Where a folder really is: links above it are followed, itself it must not be one. */
function expectedRealPath(path: string): string {
  const absolute = isAbsolute(path) ? path : join(Deno.cwd(), path);
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
