import { join } from "node:path";
import { ConfigError } from "../errors.ts";
import { isPlainFolder } from "../mcp/hostile_files.ts";

const CURRENT = "audit.jsonl";
const ROTATED = /^audit\.(\d+)\.jsonl$/;

/** A file of the log that is full. */
export interface RotatedFile {
  /** Its number: the higher, the newer. */
  readonly number: number;
  /** Where it is. */
  readonly path: string;
}

/** The files of a workspace's audit log, in `.ipybox/`. No symbolic link is followed there. */
export class AuditFolder {
  /** The folder. */
  readonly path: string;
  /** The file that is written to. */
  readonly current: string;

  /** @param workspace The workspace. */
  constructor(workspace: string) {
    this.path = join(workspace, ".ipybox");
    this.current = join(this.path, CURRENT);
  }

  /**
   * Opens the current file for appending. It and the folder are made where they are missing.
   *
   * @returns The file.
   * @throws {ConfigError} Something else is in the place of one of them.
   */
  async open(): Promise<Deno.FsFile> {
    if (!await isPlainFolder(this.path)) await Deno.mkdir(this.path, { mode: 0o700 });
    for (;;) {
      const file = await openPlain(this.current, { read: true, append: true });
      if (file !== undefined) return file;
      try {
        const options = { read: true, append: true, createNew: true, mode: 0o600 };
        return await Deno.open(this.current, options); // fails on links
      } catch (error) {
        if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
      }
    }
  }

  /**
   * Opens a file for reading. Nothing is made.
   *
   * @param path The file.
   * @returns The file, or `undefined` where there is none.
   * @throws {ConfigError} Something else is in its place.
   */
  async openForReading(path: string): Promise<Deno.FsFile | undefined> {
    return await isPlainFolder(this.path) ? await openPlain(path, { read: true }) : undefined;
  }

  /**
   * Lists the files that are full.
   *
   * @returns The files, the oldest first.
   * @throws {ConfigError} The folder is a symbolic link or no folder.
   */
  async rotated(): Promise<RotatedFile[]> {
    const found: RotatedFile[] = [];
    if (!await isPlainFolder(this.path)) return found;
    for await (const { name, isFile } of Deno.readDir(this.path)) {
      const number = ROTATED.exec(name)?.[1];
      if (isFile && number !== undefined) {
        found.push({ number: Number(number), path: join(this.path, name) });
      }
    }
    return found.sort((one, other) => one.number - other.number);
  }

  /** Puts the current file aside as the newest of those that are full. */
  async rotate(): Promise<void> {
    const number = ((await this.rotated()).at(-1)?.number ?? 0) + 1;
    await Deno.rename(this.current, join(this.path, `audit.${number}.jsonl`));
  }

  /**
   * Looks whether a file is still the current one.
   *
   * @param file The open file.
   * @returns Whether it is.
   */
  isCurrent(file: Deno.FsFile): boolean {
    try {
      const [opened, there] = [file.statSync(), Deno.lstatSync(this.current)];
      return there.isFile && opened.ino === there.ino && opened.dev === there.dev;
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return false;
      throw error;
    }
  }
}

/** Opens a file that must be a plain one, if it is there. */
async function openPlain(
  path: string,
  options: Deno.OpenOptions,
): Promise<Deno.FsFile | undefined> {
  try {
    const before = await Deno.lstat(path);
    if (!before.isFile) throw new ConfigError(`Cannot open ${path}: it is not a plain file`);
    const file = await Deno.open(path, options);
    const opened = await file.stat();
    if (opened.ino === before.ino && opened.dev === before.dev) return file;
    file.close();
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
  throw new ConfigError(`Cannot open ${path}: it was replaced while it was opened`);
}
