import { z } from "zod";
import { Mutex } from "../base/mutex.ts";
import { joinBytes } from "../base/bytes.ts";
import type { ByteStream } from "../base/streams.ts";
import { ifPresent, readHostileFile } from "../files/safe.ts";
import { sha256 } from "../json/digest.ts";
import type { Link } from "../link/link.ts";
import { archiveOf } from "../placement/boot.ts";

/** A folder of this machine that kernels elsewhere get a copy of. */
export interface SyncedFolder {
  readonly here: string;
  readonly there: string;
}

/** How much such a folder can have. */
const MAX_FILES = 20_000;
const MAX_BYTES = 64 << 20;

/** The longest answer. */
const MAX_LINE = 1 << 16;

const answerSchema = z.object({ error: z.string().nullable() });

/** Keeps a copy of a folder where kernels are, by a program that the launcher starts there. */
export class FolderSync {
  readonly #link: Link;
  readonly #folder: SyncedFolder;
  readonly #turns = new Mutex();
  #version: string | undefined;
  #stream: ByteStream | undefined;

  constructor(link: Link, folder: SyncedFolder) {
    this.#link = link;
    this.#folder = folder;
  }

  /** Sends the folder, if it is not as it was. Whatever happens to the link shows elsewhere. */
  async update(): Promise<void> {
    using _turn = await this.#turns.acquire();
    const entries = await entriesOf(this.#folder.here);
    const version = sha256(entries.map(({ version }) => version).join("\n"));
    if (version === this.#version) return;
    const files = [];
    let size = 0;
    for (const { path } of entries) {
      const text = await readHostileFile(`${this.#folder.here}/${path}`);
      if (text === undefined) continue; // it has just been replaced, which the next update sees
      size += text.length;
      if (size > MAX_BYTES) throw tooLarge(this.#folder.here);
      files.push({ path, text });
    }
    const error = await this.#put(await archiveOf(files));
    if (error === undefined) this.#version = version;
    else if (error !== null) {
      throw new Error(`Cannot bring ${this.#folder.here} to the kernel: ${error}`);
    }
  }

  /** `undefined` where it was done, `null` where the link is gone. */
  async #put(archive: Uint8Array): Promise<string | null | undefined> {
    const stream = this.#stream ??= this.#link.startProgram("files");
    if (stream === undefined) return null;
    try {
      const order = JSON.stringify({ path: this.#folder.there, size: archive.length });
      await stream.write(joinBytes(new TextEncoder().encode(`${order}\n`), archive));
      return answerSchema.parse(JSON.parse(await lineOf(stream))).error ?? undefined;
    } catch {
      this.#stream = undefined;
      stream.close();
      return null;
    }
  }
}

async function lineOf(stream: ByteStream): Promise<string> {
  let bytes = new Uint8Array(0);
  while (!bytes.includes(10) && bytes.length < MAX_LINE) {
    const next = await stream.read();
    if (next === null) break;
    bytes = joinBytes(bytes, next);
  }
  return new TextDecoder().decode(bytes);
}

interface Entry {
  readonly path: string;
  /** What changes with it. */
  readonly version: string;
}

/** The files in a folder, and in those below it. */
async function entriesOf(root: string): Promise<Entry[]> {
  const found: Entry[] = [];
  const folders = [""];
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    const names = await ifPresent(Array.fromAsync(Deno.readDir(`${root}/${folder}`))) ?? [];
    for (const { name, isDirectory, isFile } of names) {
      const path = `${folder}${name}`;
      if (isDirectory && name !== "__pycache__") folders.push(`${path}/`);
      if (!isFile) continue;
      const info = await ifPresent(Deno.lstat(`${root}/${path}`));
      const { ino, size, mtime } = info ?? {};
      found.push({ path, version: `${path} ${ino} ${size} ${mtime?.getTime()}` });
      if (found.length > MAX_FILES) throw tooLarge(root);
    }
  }
  return found.sort((one, other) => one.path < other.path ? -1 : 1);
}

function tooLarge(folder: string): Error {
  return new Error(
    `Cannot bring ${folder} to the kernel: it has more than ${MAX_FILES} files or ` +
      `${MAX_BYTES >> 20} MiB; unregister MCP servers that you do not need`,
  );
}
