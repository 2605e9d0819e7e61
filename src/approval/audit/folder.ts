import { basename, join } from "node:path";
import { fill } from "../../base/bytes.ts";
import { ConfigError } from "../../base/errors.ts";
import { writeAll } from "../../files/artifact_folder.ts";
import {
  ifPresent,
  isPlainFolder,
  lstatIfPresent,
  openIfPresent,
  openPlainFile,
} from "../../files/safe.ts";
import { PinnedFolder } from "../../files/pinned_folder.ts";
import { sha256 } from "../../json/digest.ts";
import { ownKey } from "./own_key.ts";

const CURRENT = "audit.jsonl";
const KEY = "audit.key";
const KEY_BYTES = 32;
/** Only numbers that can be counted on from: a repository could bring any. */
const ROTATED = /^audit\.([1-9]\d{0,14})\.jsonl$/;
const MAX_NUMBER = 10 ** 15;

/** A full file of the log. */
export interface RotatedFile {
  /** Its number: higher is newer. */
  readonly number: number;
  readonly path: string;
}

/** A file's identity and size. */
interface FileIdentity {
  /** Its inode; `null` if the system has none. */
  readonly ino: number | null;
  readonly dev: number;
  /** Its size in bytes. */
  readonly size: number;
}

/** The files of a workspace's audit log, in `.ipybox/`, where no symbolic link is followed. */
export class AuditFolder {
  readonly path: string;
  readonly #workspace: string;
  /** The file that is currently written. */
  readonly current: string;

  /** @param workspace The workspace. */
  constructor(workspace: string) {
    this.#workspace = workspace;
    this.path = join(workspace, ".ipybox");
    this.current = join(this.path, CURRENT);
  }

  /** Opens the current file for appending. Creates it and the folder if they are missing. */
  async open(): Promise<Deno.FsFile> {
    return await this.#openOwn(this.current);
  }

  /** The key of the hashes that replace secrets. Another one in its file, as of a repository, is set aside. */
  async key(): Promise<Uint8Array> {
    const path = join(this.path, KEY);
    const isPrivate = ((await lstatIfPresent(path))?.mode ?? 0) % 0o100 === 0;
    using file = await this.#openOwn(path);
    await file.lock(true); // another process may be creating it; closing the file releases the lock
    const bytes = new Uint8Array(KEY_BYTES);
    const present = bytes.subarray(0, (await fill(bytes, file)).length);
    const isWhole = present.length === KEY_BYTES;
    const own = await ownKey(this.#workspace);
    // If its origin is unknown, a file that others could not read counts as the user's.
    if (isWhole && (own === undefined ? isPrivate : sha256(own) === sha256(present))) {
      return present;
    }
    if (isWhole) await this.#putAside(present);
    const key = own ?? crypto.getRandomValues(new Uint8Array(KEY_BYTES));
    await file.truncate();
    writeAll(file, key);
    return key;
  }

  /** Keeps a former key, which its owner needs to check earlier lines. */
  async #putAside(key: Uint8Array): Promise<void> {
    const name = `${KEY}.${sha256(key).slice(0, 8)}`;
    using file = await this.#openOwn(join(this.path, name));
    await file.truncate();
    writeAll(file, key);
  }

  /** Opens a file, or creates it for its owner only. */
  async #openOwn(path: string): Promise<Deno.FsFile> {
    await using folder = await PinnedFolder.open(this.path);
    return await openPlainFile(join(folder.path, basename(path)));
  }

  /** Opens a file for reading. Creates nothing. */
  async openForReading(path: string): Promise<Deno.FsFile | undefined> {
    return await isPlainFolder(this.path) ? await openIfPresent(path, { read: true }) : undefined;
  }

  /** Lists the full files. */
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

  /** The size of all files, in bytes. */
  async size(): Promise<number> {
    const full = (await this.rotated()).map(({ path }) => lstatIfPresent(path));
    const sizes = (await Promise.all(full)).map((info) => info?.size ?? 0);
    return sizes.reduce((sum, size) => sum + size, this.identify()?.size ?? 0);
  }

  /** Renames the current file to the newest of the full ones. */
  async rotate(): Promise<void> {
    const number = ((await this.rotated()).at(-1)?.number ?? 0) + 1;
    if (number >= MAX_NUMBER) {
      throw new ConfigError(
        `The audit log cannot be continued: move ${this.path}/audit.${number - 1}.jsonl away`,
      );
    }
    await using folder = await PinnedFolder.open(this.path);
    await Deno.rename(join(folder.path, CURRENT), join(folder.path, `audit.${number}.jsonl`));
  }

  /** Removes a full file, unless somebody else already has. */
  async remove({ path }: RotatedFile): Promise<void> {
    await using folder = await PinnedFolder.open(this.path);
    await ifPresent(Deno.remove(join(folder.path, basename(path))));
  }

  /** Whether a file is still the current one. */
  isCurrent(file: Deno.FsFile): boolean {
    const [opened, there] = [file.statSync(), this.identify()];
    return there !== undefined && opened.ino === there.ino && opened.dev === there.dev;
  }

  /** The current file's identity and size. No symbolic link is followed. */
  identify(): FileIdentity | undefined {
    try {
      const { isFile, ino, dev, size } = Deno.lstatSync(this.current);
      return isFile ? { ino, dev, size } : undefined;
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return undefined;
      throw error;
    }
  }
}
