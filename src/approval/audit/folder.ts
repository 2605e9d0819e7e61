import { join } from "node:path";
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
import { makeWorkspaceState, usableStatePath } from "../../files/workspace_state.ts";

const CURRENT = "audit.jsonl";
const KEY = "audit.key";
const KEY_BYTES = 32;
/** Only numbers that can be incremented: a repository could contain any. */
const ROTATED = /^audit\.([1-9]\d{0,14})\.jsonl$/;
const MAX_NUMBER = 10 ** 15;

/** A full file of the log. */
export interface RotatedFile {
  /** Its number: higher is newer. */
  readonly number: number;
  readonly path: string;
}

/** The files of a workspace's audit log. Symbolic links are not followed. */
export class AuditFolder {
  readonly path: string;
  /** The file that is currently written. */
  readonly current: string;
  /** Whether it is in the user's state folder. A repository could contain any key. */
  readonly #isUsers: boolean;

  private constructor(workspace: string, state: string | undefined) {
    this.#isUsers = state !== undefined;
    this.path = state ?? join(workspace, ".ipybox");
    this.current = join(this.path, CURRENT);
  }

  /** Finds the folder. Creates nothing. */
  static async find(workspace: string): Promise<AuditFolder> {
    return new AuditFolder(workspace, await usableStatePath(workspace));
  }

  /** Creates the folder: in the workspace if the user's state folder cannot be used. */
  static async make(workspace: string): Promise<AuditFolder> {
    const folder = new AuditFolder(workspace, await makeWorkspaceState(workspace));
    if (!await isPlainFolder(folder.path)) {
      await Deno.mkdir(folder.path, { recursive: true, mode: 0o700 });
    }
    return folder;
  }

  /** Opens the current file for appending. Creates it if it is missing. */
  async open(): Promise<Deno.FsFile> {
    return await openPlainFile(this.current);
  }

  /** The key of the hashes that replace secrets. */
  async key(): Promise<Uint8Array> {
    const fresh = crypto.getRandomValues(new Uint8Array(KEY_BYTES));
    if (!this.#isUsers) return fresh;
    using file = await openPlainFile(join(this.path, KEY));
    await file.lock(true); // another process may be creating it; closing the file releases the lock
    const present = await fill(new Uint8Array(KEY_BYTES), file);
    if (present.length === KEY_BYTES) return present;
    await file.truncate();
    writeAll(file, fresh);
    return fresh;
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
    return sizes.reduce((sum, size) => sum + size, this.#current()?.size ?? 0);
  }

  /** Renames the current file, which becomes the newest full file. */
  async rotate(): Promise<void> {
    const number = ((await this.rotated()).at(-1)?.number ?? 0) + 1;
    if (number >= MAX_NUMBER) {
      throw new ConfigError(
        `The audit log cannot be continued: move ${this.path}/audit.${number - 1}.jsonl away`,
      );
    }
    await Deno.rename(this.current, join(this.path, `audit.${number}.jsonl`));
  }

  /** Removes a full file, unless another process already has. */
  async remove({ path }: RotatedFile): Promise<void> {
    await ifPresent(Deno.remove(path));
  }

  /** The size of an open file; `undefined` once another one is the current file. */
  sizeOfCurrent(file: Deno.FsFile): number | undefined {
    const [opened, there] = [file.statSync(), this.#current()];
    const isCurrent = there !== undefined && opened.ino === there.ino && opened.dev === there.dev;
    return isCurrent ? there.size : undefined;
  }

  /** The current file's status. No symbolic link is followed. */
  #current(): Deno.FileInfo | undefined {
    try {
      const status = Deno.lstatSync(this.current);
      return status.isFile ? status : undefined;
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return undefined;
      throw error;
    }
  }
}
