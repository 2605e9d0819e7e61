import { ConfigError } from "../../base/errors.ts";
import { fill, LineSplitter } from "../../base/bytes.ts";
import { writeAll } from "../../files/artifact_folder.ts";
import { sha256 } from "../../json/digest.ts";
import { isRecord } from "../../json/exact.ts";
import { parsedJson } from "../../json/plain.ts";
import type { AuditFolder, RotatedFile } from "./folder.ts";
import type { ChainEnd, LogHead } from "./head.ts";

/** How long files are kept. */
interface Retention {
  /** The size at which a new file begins, in bytes. */
  readonly maxBytes: number;
  /**
   * The limit on the total size of the full files from before the first line: beyond it, the oldest
   * are removed.
   */
  readonly maxTotalBytes: number;
}

/** More than the longest line. */
const TAIL_BYTES = 2 ** 20;
/** How long to wait for a lock that another process holds. */
const LOCK_MS = 10_000;
const LINE_FEED = 10;
/** The size of one read of a file. */
export const CHUNK_BYTES = 2 ** 18;

/**
 * The file that lines are appended to. It stays open, so that a line costs a few system calls and
 * no turn of the event loop.
 */
export class AuditFile implements Disposable {
  readonly #folder: AuditFolder;
  readonly #retention: Retention;
  readonly #head: LogHead;
  #file: Deno.FsFile | undefined;
  /** The number of the newest full file before the first line: later ones are not removed here. */
  #newestBefore: number | undefined;
  /** The file's size while it is locked. */
  #size = 0;
  /** The file's state after the last write, so that it need not be read again if unchanged. */
  #left: { readonly size: number; readonly end: ChainEnd } | undefined;

  constructor(folder: AuditFolder, head: LogHead, retention: Retention) {
    this.#folder = folder;
    this.#head = head;
    this.#retention = retention;
  }

  /** Writes lines. The system has them once this resolves. */
  async write(lines: readonly string[]): Promise<void> {
    try {
      this.#newestBefore ??= (await this.#folder.rotated()).at(-1)?.number ?? 0;
      if (!this.#lockCurrent()) await this.#openAndLock();
      await this.#append(lines);
    } catch (error) {
      this.#close();
      throw error;
    } finally {
      this.#file?.unlockSync();
    }
  }

  /** Closes the file. */
  [Symbol.dispose](): void {
    this.#close();
  }

  async #append(lines: readonly string[]): Promise<void> {
    const { end, repair, lost } = await this.#goOn();
    const chained = chain([...lost, ...lines], end);
    const bytes = new TextEncoder().encode(repair + chained.text);
    const size = this.#size;
    if (size === 0 || repair !== "" || size + bytes.length <= this.#retention.maxBytes) {
      return await this.#writeAll(bytes, chained.end);
    }
    await this.#rotate();
    const gone = await this.#superfluous();
    const said = gone.length === 0 ? [] : [await removal(this.#folder, gone)];
    const start = await this.#goOn(); // another process may have written first to the new file
    const next = chain([...start.lost, ...said, ...lines], start.end);
    await this.#writeAll(new TextEncoder().encode(start.repair + next.text), next.end);
    for (const file of gone) await this.#folder.remove(file); // only after a line records it
  }

  async #writeAll(bytes: Uint8Array, end: ChainEnd): Promise<void> {
    writeAll(this.#open(), bytes);
    this.#size += bytes.length;
    this.#left = { size: this.#size, end };
    await this.#head.keep(end);
  }

  /** Begins a new file. */
  async #rotate(): Promise<void> {
    await this.#folder.rotate();
    this.#close();
    await this.#openAndLock();
  }

  /**
   * The full files to remove: none from after the first line, or filling them would push out
   * earlier ones.
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

  /**
   * Finds the end of the chain, seals off a line that a killed process left torn, and reports lost
   * lines.
   */
  async #goOn(): Promise<{ end: ChainEnd; repair: string; lost: readonly string[] }> {
    const size = this.#size;
    if (this.#left?.size === size) return { end: this.#left.end, repair: "", lost: [] };
    const tail = await readTail(this.#open(), size);
    const lineEnd = tail.lastIndexOf(LINE_FEED);
    const torn = tail.subarray(lineEnd + 1);
    const found = lineEnd < 0
      ? await endOfRotated(this.#folder)
      : endOf(lastLine(tail.subarray(0, lineEnd)));
    const head = await this.#head.readIfPossible();
    const isWhole = head === undefined || isIn(tail, found, head);
    // The numbers of lost lines are not reused.
    const end = isWhole ? found : { ...found, seq: Math.max(found.seq, head.seq) };
    const lost = isWhole ? [] : [JSON.stringify({
      time: new Date().toISOString(),
      lost: { upTo: head.seq, hash: head.hash },
    })];
    if (torn.length === 0) return { end, repair: "", lost };
    const seal = JSON.stringify({
      time: new Date().toISOString(),
      sealed: { bytes: torn.length, sha256: sha256(torn) },
    });
    const sealed = chainLine(seal, end);
    return { end: sealed.end, repair: `\n${sealed.line}\n`, lost };
  }

  #open(): Deno.FsFile {
    if (this.#file === undefined) throw new Error("The audit log file is not open");
    return this.#file;
  }

  /** Locks the open file, if it is still the current one and nobody else has locked it. */
  #lockCurrent(): boolean {
    const file = this.#file;
    if (file === undefined || !file.tryLockSync(true)) return false;
    const size = this.#folder.sizeOfCurrent(file);
    if (size !== undefined) {
      this.#size = size;
      return true;
    }
    this.#close(); // another process has rotated it
    return false;
  }

  async #openAndLock(): Promise<void> {
    const end = Date.now() + LOCK_MS;
    for (let waitMs = 1;; waitMs = Math.min(2 * waitMs, 100)) {
      this.#file ??= await this.#folder.open();
      if (this.#lockCurrent()) return;
      if (this.#file === undefined) continue;
      if (Date.now() > end) throw new Error(`another process keeps ${this.#folder.current} locked`);
      await new Promise((resolve) => setTimeout(resolve, waitMs));
    }
  }

  #close(): void {
    this.#file?.close(); // also releases the lock
    this.#head[Symbol.dispose](); // whoever moves the log moves its end, too
    this.#file = undefined;
    this.#left = undefined;
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

/** Creates the line that records removed files, with the number of their last line. */
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

/** Whether a log that ends with these bytes may contain a line that was its last. */
function isIn(tail: Uint8Array, end: ChainEnd, line: ChainEnd): boolean {
  if (line.seq >= end.seq) return line.seq === end.seq && line.hash === end.hash;
  // The log continues: a process was killed before it kept the end, or another user has written
  // lines.
  const found = lineSplitter().add(tail).map(readChainLine)
    .find((read) => read?.seq === line.seq);
  return found === undefined || found.hash === line.hash;
}

/** The last line of bytes that do not end with a line feed. */
function lastLine(bytes: Uint8Array): Uint8Array {
  return bytes.subarray(bytes.lastIndexOf(LINE_FEED) + 1);
}

/** The end of the chain after a line. After a changed one it restarts, so that the change stays visible. */
function endOf(line: Uint8Array): ChainEnd {
  return readChainLine(line) ?? { seq: 0, hash: GENESIS };
}

async function readTail(file: Deno.FsFile, size: number): Promise<Uint8Array> {
  const length = Math.min(size, TAIL_BYTES);
  await file.seek(size - length, Deno.SeekMode.Start);
  return await fill(new Uint8Array(length), file);
}

// Lines that are chained by hash, so that changing one invalidates all that follow.

/** The predecessor hash of the first line. */
export const GENESIS: string = "0".repeat(64);

/** The end of a chain without lines. */
const NOTHING: ChainEnd = { seq: 0, hash: GENESIS };

interface ChainLine extends ChainEnd {
  /** The hash of the previous line. */
  readonly prev: string;
  readonly fields: Readonly<Record<string, unknown>>;
  /** Whether its hash is correct. */
  readonly intact: boolean;
}

const HASH = /,"hash":"([0-9a-f]{64})"\}$/;

/** Creates the line after the end of a chain. */
function chainLine(fields: string, end: ChainEnd): { line: string; end: ChainEnd } {
  const seq = end.seq + 1;
  if (!Number.isSafeInteger(seq)) {
    throw new ConfigError(
      "The audit log cannot be continued: move its audit*.jsonl away (`ipybox where` says where)",
    );
  }
  const body = `{"seq":${seq},${fields.slice(1, -1)},"prev":"${end.hash}"`;
  const hash = sha256(body);
  return { line: `${body},"hash":"${hash}"}`, end: { seq, hash } };
}

/** Parses a line. The hash covers the exact text before it, so no other spelling of the JSON passes. */
export function readChainLine(bytes: Uint8Array): ChainLine | undefined {
  const line = new TextDecoder().decode(bytes);
  const found = HASH.exec(line);
  const hash = found?.[1];
  if (found === null || hash === undefined) return undefined;
  const fields = parsedJson(line); // `undefined` for a torn line
  if (!isRecord(fields)) return undefined;
  const { seq, prev } = fields;
  if (!Number.isSafeInteger(seq) || typeof seq !== "number" || typeof prev !== "string") {
    return undefined;
  }
  return { seq, prev, hash, fields, intact: sha256(line.slice(0, found.index)) === hash };
}

/** More than the longest line. If a line is longer, it is not valid anyway, and its rest is dropped. */
const MAX_LINE_BYTES = 2 ** 23;

/** Splits a log into lines. */
export function lineSplitter(): LineSplitter {
  return new LineSplitter(MAX_LINE_BYTES);
}
