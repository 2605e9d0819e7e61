import { fill, joinBytes } from "../../base/bytes.ts";
import { sha256 } from "../../json/digest.ts";
import type { AuditFolder, RotatedFile } from "./folder.ts";

/** How long files are kept. */
interface Retention {
  /** The size at which a new file is begun, in bytes. */
  readonly maxBytes: number;
  /** The size of all full files from before the first line above which the oldest go. */
  readonly maxTotalBytes: number;
}

/** An open file, and which one it is. */
interface OpenFile {
  readonly handle: Deno.FsFile;
  readonly ino: number | null;
  readonly dev: number;
}

/** More than the longest line. */
const TAIL_BYTES = 2 ** 20;
/** How long another process may keep the log to itself. */
const LOCK_MS = 10_000;
const LINE_FEED = 10;

/**
 * The file that lines are appended to, in one chain with those of other processes. It stays open
 * between them: a line that nothing is in the way of costs a few system calls and no turn of the
 * event loop.
 */
export class AuditFile implements Disposable {
  readonly #folder: AuditFolder;
  readonly #retention: Retention;
  #file: OpenFile | undefined;
  /** The newest file that was full before the first line: none after it is removed here. */
  #newestBefore: number | undefined;
  /** Its size, for as long as it is locked. */
  #size = 0;
  /** How the file was left, so that it need not be read again if it still is so. */
  #left: { readonly size: number; readonly end: ChainEnd } | undefined;

  constructor(folder: AuditFolder, retention: Retention) {
    this.#folder = folder;
    this.#retention = retention;
  }

  /** Writes lines. They are with the system once this resolves. */
  async write(lines: readonly string[]): Promise<void> {
    try {
      this.#newestBefore ??= (await this.#folder.rotated()).at(-1)?.number ?? 0;
      if (!this.#lockCurrent()) await this.#openAndLock();
      await this.#append(lines);
    } catch (error) {
      this.#close();
      throw error;
    } finally {
      this.#file?.handle.unlockSync();
    }
  }

  /** Closes the file. */
  [Symbol.dispose](): void {
    this.#close();
  }

  async #append(lines: readonly string[]): Promise<void> {
    const { end, repair } = await this.#goOn();
    const chained = chain(lines, end);
    const bytes = new TextEncoder().encode(repair + chained.text);
    const size = this.#size;
    if (size === 0 || repair !== "" || size + bytes.length <= this.#retention.maxBytes) {
      return this.#writeAll(bytes, chained.end);
    }
    await this.#rotate();
    const gone = await this.#superfluous();
    const said = gone.length === 0 ? [] : [await removal(this.#folder, gone)];
    const start = await this.#goOn(); // another process may have been the first in the new file
    const next = chain([...said, ...lines], start.end);
    this.#writeAll(new TextEncoder().encode(start.repair + next.text), next.end);
    for (const file of gone) await this.#folder.remove(file); // not before a line says so
  }

  #writeAll(bytes: Uint8Array, end: ChainEnd): void {
    const file = this.#open();
    for (let rest = bytes; rest.length > 0;) rest = rest.subarray(file.writeSync(rest));
    this.#size += bytes.length;
    this.#left = { size: this.#size, end };
  }

  /** Begins a new file. */
  async #rotate(): Promise<void> {
    await this.#folder.rotate();
    this.#close();
    await this.#openAndLock();
  }

  /**
   * Tells which of the full files are to go. Those that were written since the first line neither go
   * nor count: otherwise what fills them would push out what was before.
   */
  async #superfluous(): Promise<RotatedFile[]> {
    const newest = this.#newestBefore ?? 0;
    const before = (await this.#folder.rotated()).filter(({ number }) => number <= newest);
    const sizes = await Promise.all(before.map(async ({ path }) => (await Deno.lstat(path)).size));
    let total = sizes.reduce((sum, size) => sum + size, 0);
    return before.filter((_, index) => {
      if (total <= this.#retention.maxTotalBytes) return false;
      total -= sizes[index] ?? 0;
      return true;
    });
  }

  /** Finds where the chain continues, and seals off what a killed process left of a line. */
  async #goOn(): Promise<{ end: ChainEnd; repair: string }> {
    const size = this.#size;
    if (this.#left?.size === size) return { end: this.#left.end, repair: "" };
    const tail = await readTail(this.#open(), size);
    const lineEnd = tail.lastIndexOf(LINE_FEED);
    const torn = tail.subarray(lineEnd + 1);
    const end = lineEnd < 0
      ? await endOfRotated(this.#folder)
      : endOf(lastLine(tail.subarray(0, lineEnd)));
    if (torn.length === 0) return { end, repair: "" };
    const seal = JSON.stringify({
      time: new Date().toISOString(),
      sealed: { bytes: torn.length, sha256: sha256(torn) },
    });
    const sealed = chainLine(seal, end);
    return { end: sealed.end, repair: `\n${sealed.line}\n` };
  }

  #open(): Deno.FsFile {
    if (this.#file === undefined) throw new Error("The audit log file is not open");
    return this.#file.handle;
  }

  /** Locks the file that is open, if it is still the current one and nobody else has locked it. */
  #lockCurrent(): boolean {
    const file = this.#file;
    if (file === undefined || !file.handle.tryLockSync(true)) return false;
    const there = this.#folder.look();
    if (there !== undefined && there.ino === file.ino && there.dev === file.dev) {
      this.#size = there.size;
      return true;
    }
    this.#close(); // another process put it aside
    return false;
  }

  async #openAndLock(): Promise<void> {
    const end = Date.now() + LOCK_MS;
    for (let waitMs = 1;; waitMs = Math.min(2 * waitMs, 100)) {
      this.#file ??= await identified(await this.#folder.open());
      if (this.#lockCurrent()) return;
      if (this.#file === undefined) continue;
      if (Date.now() > end) throw new Error(`another process keeps ${this.#folder.current} locked`);
      await new Promise((resolve) => setTimeout(resolve, waitMs));
    }
  }

  #close(): void {
    this.#file?.handle.close(); // which gives the lock back
    this.#file = undefined;
    this.#left = undefined;
  }
}

async function identified(handle: Deno.FsFile): Promise<OpenFile> {
  try {
    const { ino, dev } = await handle.stat();
    return { handle, ino, dev };
  } catch (error) {
    handle.close();
    throw error;
  }
}

function chain(lines: readonly string[], end: ChainEnd): { text: string; end: ChainEnd } {
  let text = "";
  for (const fields of lines) {
    const next = chainLine(fields, end);
    text += `${next.line}\n`;
    end = next.end;
  }
  return { text, end };
}

/** Says which files were removed, by the number of their last line. */
async function removal(folder: AuditFolder, gone: readonly RotatedFile[]): Promise<string> {
  const last = gone.at(-1);
  const { seq } = last === undefined ? NOTHING : await endOfFile(folder, last.path);
  const removed = { files: gone.length, upTo: seq };
  return JSON.stringify({ time: new Date().toISOString(), removed });
}

async function endOfRotated(folder: AuditFolder): Promise<ChainEnd> {
  const last = (await folder.rotated()).at(-1);
  return last === undefined ? NOTHING : await endOfFile(folder, last.path);
}

async function endOfFile(folder: AuditFolder, path: string): Promise<ChainEnd> {
  using file = await folder.openForReading(path);
  if (file === undefined) return NOTHING;
  const tail = await readTail(file, (await file.stat()).size);
  return endOf(lastLine(tail.at(-1) === LINE_FEED ? tail.subarray(0, -1) : tail));
}

/** The last line of what has no line feed at its end. */
function lastLine(bytes: Uint8Array): Uint8Array {
  return bytes.subarray(bytes.lastIndexOf(LINE_FEED) + 1);
}

/** A last line that is whole but wrong was changed: the chain continues so that this stays visible. */
function endOf(line: Uint8Array): ChainEnd {
  return readChainLine(line) ?? { seq: 0, hash: GENESIS };
}

async function readTail(file: Deno.FsFile, size: number): Promise<Uint8Array> {
  const length = Math.min(size, TAIL_BYTES);
  await file.seek(size - length, Deno.SeekMode.Start);
  return await fill(new Uint8Array(length), file);
}

// Lines that are chained by hash, so that a change of one shows in all that follow.

/** What the first line of a chain follows. */
export const GENESIS: string = "0".repeat(64);

/** Where the next line continues. */
interface ChainEnd {
  /** The number of the last line; 0 before the first. */
  readonly seq: number;
  /** Its hash. */
  readonly hash: string;
}

/** The end of a chain that has no line yet. */
const NOTHING: ChainEnd = { seq: 0, hash: GENESIS };

/** A line of a chain that was read. */
interface ChainLine extends ChainEnd {
  /** The hash of the line before. */
  readonly prev: string;
  /** All its fields. */
  readonly fields: Readonly<Record<string, unknown>>;
  /** Whether its hash is that of its text. */
  readonly intact: boolean;
}

const HASH = /,"hash":"([0-9a-f]{64})"\}$/;

/** Writes a line that follows another. */
function chainLine(fields: string, end: ChainEnd): { line: string; end: ChainEnd } {
  const seq = end.seq + 1;
  const body = `{"seq":${seq},${fields.slice(1, -1)},"prev":"${end.hash}"`;
  const hash = sha256(body);
  return { line: `${body},"hash":"${hash}"}`, end: { seq, hash } };
}

/**
 * Reads a line. The hash is over the text of all that comes before it, so no other spelling of the
 * same JSON passes.
 */
export function readChainLine(bytes: Uint8Array): ChainLine | undefined {
  const line = new TextDecoder().decode(bytes);
  const found = HASH.exec(line);
  const hash = found?.[1];
  if (found === null || hash === undefined) return undefined;
  const fields = parseObject(line);
  if (fields === undefined) return undefined;
  const { seq, prev } = fields;
  if (typeof seq !== "number" || typeof prev !== "string") return undefined;
  return { seq, prev, hash, fields, intact: sha256(line.slice(0, found.index)) === hash };
}

function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value))
      : undefined;
  } catch {
    return undefined; // a torn line
  }
}

/** No line of ours is longer. */
const MAX_LINE_BYTES = 2 ** 23;

/** Makes lines of bytes as they come. Lines are bytes: one that is torn need not be a text. */
export class LineSplitter {
  #rest: Uint8Array = new Uint8Array();

  /** Takes bytes. */
  add(bytes: Uint8Array): Uint8Array[] {
    const lines: Uint8Array[] = [];
    let at = 0;
    for (let end = bytes.indexOf(LINE_FEED); end >= 0; end = bytes.indexOf(LINE_FEED, at)) {
      lines.push(joinBytes(this.#rest, bytes.subarray(at, end)));
      this.#rest = new Uint8Array();
      at = end + 1;
    }
    // What is too long is not a line of ours any more, whatever is left out of it.
    if (this.#rest.length <= MAX_LINE_BYTES) this.#rest = joinBytes(this.#rest, bytes.subarray(at));
    return lines;
  }

  /** What has no line feed yet. */
  get rest(): Uint8Array {
    return this.#rest;
  }
}
