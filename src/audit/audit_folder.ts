import { join } from "node:path";
import {
  isPlainFolder,
  lockHostileFile,
  makePlainFolder,
  openHostileFile,
} from "../mcp/hostile_files.ts";

const CURRENT = "audit.jsonl";
const ROTATED = /^audit\.(\d+)\.jsonl$/;

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
   * Keeps other processes out until the result is disposed.
   *
   * @returns The lock.
   * @throws {ConfigError} Something else is where the folder or the lock should be.
   */
  async lock(): Promise<Disposable> {
    await makePlainFolder(this.path);
    return await lockHostileFile(join(this.path, "audit.lock"));
  }

  /**
   * Opens the current file, which is made where it is missing.
   *
   * @returns The file.
   * @throws {ConfigError} Something else is in its place.
   */
  async open(): Promise<Deno.FsFile> {
    return await openHostileFile(this.current);
  }

  /**
   * Lists the files that were rotated.
   *
   * @returns Their paths by number, the oldest first.
   */
  async rotated(): Promise<[number: number, path: string][]> {
    const found: [number, string][] = [];
    if (!await isPlainFolder(this.path)) return found;
    for await (const { name, isFile } of Deno.readDir(this.path)) {
      const number = ROTATED.exec(name)?.[1];
      if (isFile && number !== undefined) found.push([Number(number), join(this.path, name)]);
    }
    return found.sort(([one], [other]) => one - other);
  }

  /**
   * Puts the current file aside, and removes the oldest ones.
   *
   * @param keep How many stay.
   */
  async rotate(keep: number): Promise<void> {
    const rotated = await this.rotated();
    const number = (rotated.at(-1)?.[0] ?? 0) + 1;
    await Deno.rename(this.current, join(this.path, `audit.${number}.jsonl`));
    for (const [, path] of rotated.slice(0, Math.max(0, rotated.length + 1 - keep))) {
      await Deno.remove(path);
    }
  }
}
