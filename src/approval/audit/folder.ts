import { join } from "node:path";
import { fill } from "../../base/bytes.ts";
import { isPlainFolder, makePlainFolder, openIfPresent, openPlainFile } from "../../files/safe.ts";

const CURRENT = "audit.jsonl";
const KEY = "audit.key";
const KEY_BYTES = 32;
const ROTATED = /^audit\.(\d+)\.jsonl$/;

/** A file of the log that is full. */
export interface RotatedFile {
  /** Its number: the higher, the newer. */
  readonly number: number;
  /** Where it is. */
  readonly path: string;
}

/** What is seen of a file from outside. */
export interface FileLook {
  /** Its number on the device; `null` where the system has none. */
  readonly ino: number | null;
  /** The device. */
  readonly dev: number;
  /** Its size in bytes. */
  readonly size: number;
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

  /** Opens the current file for appending. It and the folder are made where they are missing. */
  async open(): Promise<Deno.FsFile> {
    await makePlainFolder(this.path);
    return await openPlainFile(this.current);
  }

  /**
   * Reads the key of the hashes that stand where secrets were. It is made, for its owner only, where it
   * is missing.
   */
  async key(): Promise<Uint8Array> {
    await makePlainFolder(this.path);
    using file = await openPlainFile(join(this.path, KEY));
    await file.lock(true); // another process may just be making it; closing it gives the lock back
    const key = new Uint8Array(KEY_BYTES);
    const { length } = await fill(key, file);
    let missing = crypto.getRandomValues(key.subarray(length));
    while (missing.length > 0) missing = missing.subarray(await file.write(missing));
    return key;
  }

  /** Opens a file for reading. Nothing is made. */
  async openForReading(path: string): Promise<Deno.FsFile | undefined> {
    return await isPlainFolder(this.path) ? await openIfPresent(path, { read: true }) : undefined;
  }

  /** Lists the files that are full. */
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

  /** Looks whether a file is still the current one. */
  isCurrent(file: Deno.FsFile): boolean {
    const [opened, there] = [file.statSync(), this.look()];
    return there !== undefined && opened.ino === there.ino && opened.dev === there.dev;
  }

  /** Looks at what is in the place of the current file. No symbolic link is followed. */
  look(): FileLook | undefined {
    try {
      const { isFile, ino, dev, size } = Deno.lstatSync(this.current);
      return isFile ? { ino, dev, size } : undefined;
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return undefined;
      throw error;
    }
  }
}
