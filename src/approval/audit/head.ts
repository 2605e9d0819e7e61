/**
 * The end of a workspace's log, kept in the user's state folder: what can write to the workspace, such
 * as an MCP server, could cut the log off there.
 *
 * @module
 */
import { basename, dirname, join } from "node:path";
import type { Logger } from "../../base/log.ts";
import { ifPresent, readHostileFile, replaceHostileFile } from "../../files/safe.ts";
import { usableState } from "../../files/user_folders.ts";
import { sha256 } from "../../json/digest.ts";
import { isRecord } from "../../json/exact.ts";
import { parsedJson } from "../../json/plain.ts";

/** The end of a chain of lines. */
export interface ChainEnd {
  /** The number of the last line; 0 before the first. */
  readonly seq: number;
  readonly hash: string;
}

/** The last line that was written for a workspace. */
export class LogHead {
  readonly #workspace: string;
  readonly #log: Logger | undefined;
  #place: Promise<Place | undefined> | undefined;
  #made = false;
  #failed = false;

  constructor(workspace: string, log?: Logger) {
    this.#workspace = workspace;
    this.#log = log;
  }

  /** The end that was kept, for a log that is written even if that cannot be read. */
  async readIfPossible(): Promise<ChainEnd | undefined> {
    try {
      return await this.read();
    } catch (error) {
      this.#say(error);
      return undefined;
    }
  }

  /** The end that was kept; `undefined` if there is none for this folder. */
  async read(): Promise<ChainEnd | undefined> {
    const place = await (this.#place ??= placeOf(this.#workspace));
    if (place === undefined) return undefined;
    const text = await readHostileFile(place.file);
    const kept = text === undefined ? undefined : parsedJson(text);
    if (!isRecord(kept) || kept.folder !== place.folder) return undefined;
    const { seq, hash } = kept;
    return typeof seq === "number" && typeof hash === "string" ? { seq, hash } : undefined;
  }

  /** Keeps the end. The log itself is written even if that fails. */
  async keep({ seq, hash }: ChainEnd): Promise<void> {
    try {
      const place = await (this.#place ??= placeOf(this.#workspace));
      if (place === undefined) return;
      const { file, ...about } = place;
      if (!this.#made) await Deno.mkdir(dirname(file), { recursive: true, mode: 0o700 });
      this.#made = true;
      await replaceHostileFile(file, JSON.stringify({ ...about, seq, hash }), {
        sync: false, // calls wait for it, and the log itself is not synced either
      });
    } catch (error) {
      this.#say(error);
    }
  }

  #say(error: unknown): void {
    if (this.#failed) return;
    this.#failed = true;
    this.#log?.warn(
      "Cannot keep the end of the audit log, so `ipybox audit --verify` will not notice that lines " +
        `are missing there: ${error}`,
    );
  }
}

/** Where the end of a workspace's log is kept, and which folder the workspace is. */
interface Place {
  readonly file: string;
  readonly workspace: string;
  /** Another folder may take the workspace's place, with a log of its own. */
  readonly folder: string;
}

async function placeOf(path: string): Promise<Place | undefined> {
  const folder = headsFolder();
  const workspace = folder === undefined ? undefined : await ifPresent(Deno.realPath(path));
  if (folder === undefined || workspace === undefined) return undefined;
  const { dev, ino, birthtime } = await Deno.stat(workspace);
  return {
    file: join(folder, `${sha256(workspace).slice(0, 32)}.json`),
    workspace,
    folder: `${dev}:${ino}:${birthtime?.getTime() ?? ""}`,
  };
}

function headsFolder(): string | undefined {
  return usableState(join("audit", "heads"));
}

/** Finds the ends that were kept for workspaces that no longer exist. */
export async function abandonedHeads(): Promise<{ path: string; workspace: string }[]> {
  const folder = headsFolder();
  const found: { path: string; workspace: string }[] = [];
  if (folder === undefined || await ifPresent(Deno.lstat(folder)) === undefined) return found;
  for await (const { name } of Deno.readDir(folder)) {
    const path = join(folder, basename(name));
    const kept = parsedJson(await readHostileFile(path) ?? "");
    if (!isRecord(kept) || typeof kept.workspace !== "string") continue;
    const { workspace } = kept;
    if (await ifPresent(Deno.lstat(workspace)) === undefined) found.push({ path, workspace });
  }
  return found;
}
