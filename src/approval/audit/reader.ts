import { basename } from "node:path";
import { sha256 } from "../../json/digest.ts";
import { isRecord } from "../../json/exact.ts";
import type { Fields } from "./entry.ts";
import { CHUNK_BYTES, GENESIS, lineSplitter, readChainLine } from "./file.ts";
import { AuditFolder } from "./folder.ts";
import { type ChainEnd, LogHead } from "./head.ts";

/** The result of {@linkcode verifyAuditLog}. */
export interface AuditVerdict {
  /** Whether every line is unchanged, and none is missing between the first and the last. */
  readonly ok: boolean;
  /** The number of valid lines before the first bad one. */
  readonly entries: number;
  /** The number of the first line: above 1 once older files have been removed. */
  readonly first?: number;
  /** The number of torn lines that were sealed off. */
  readonly sealed: number;
  /** The number of calls without an outcome: still in progress, or their process was killed. */
  readonly unfinished: number;
  /** The first bad line. */
  readonly bad?: {
    /** The file's name. */
    readonly file: string;
    /** The line in it, from 1. */
    readonly line: number;
    /** The problem. */
    readonly problem: string;
  } | undefined;
}

/**
 * Checks the audit log of a workspace. Creates and changes nothing.
 *
 * It detects lines that were changed, added, moved or removed, and files that were removed without
 * a line that records it. A record of the last line written reveals lines that are missing at the
 * end, and a log that was replaced with another one.
 *
 * @param workspace The workspace.
 * @returns The findings.
 * @throws {ConfigError} A log file is not a regular file.
 */
export async function verifyAuditLog(workspace: string): Promise<AuditVerdict> {
  const folder = await AuditFolder.find(workspace);
  const head = await new LogHead(folder.path).read(); // first: later lines come after it
  const check = new ChainCheck(head);
  for await (const line of linesIn(folder)) {
    if (!check.add(line)) break;
  }
  return check.verdict();
}

/**
 * Reads the audit log of a workspace. Creates and changes nothing. Damaged lines are skipped:
 * {@linkcode verifyAuditLog} reports them.
 *
 * @param workspace The workspace.
 * @returns The fields of each line, oldest first.
 * @throws {ConfigError} A log file is not a regular file.
 */
export async function* readAuditLog(
  workspace: string,
): AsyncGenerator<Readonly<Record<string, unknown>>, void, undefined> {
  for await (const { bytes, whole } of linesIn(await AuditFolder.find(workspace))) {
    const line = whole ? readChainLine(bytes) : undefined;
    if (line !== undefined) yield line.fields;
  }
}

/** Checks lines one after the other. */
class ChainCheck {
  #seq = 0;
  #hash = GENESIS;
  #entries = 0;
  #sealed = 0;
  #removedUpTo = 0;
  #first: { readonly seq: number; readonly line: FileLine } | undefined;
  #torn: FileLine | undefined;
  #bad: AuditVerdict["bad"];
  readonly #unfinished = new Set<unknown>();
  /** The last line that is known to have been written. */
  readonly #head: ChainEnd | undefined;
  #last: FileLine | undefined;

  constructor(head: ChainEnd | undefined) {
    this.#head = head;
  }

  /** Checks the next line, and returns whether all are valid so far. */
  add(line: FileLine): boolean {
    const problem = this.#check(line);
    if (problem !== undefined) this.#fail(this.#torn ?? line, problem);
    return problem === undefined;
  }

  verdict(): AuditVerdict {
    const torn = this.#torn;
    if (torn !== undefined) this.#fail(torn, torn.whole ? NO_LINE : TORN);
    const head = this.#head;
    if (head !== undefined && this.#seq < head.seq) {
      const last = this.#last;
      const where = last === undefined ? "Lines are missing" : "Lines are missing after this";
      this.#fail(
        last ?? { file: "audit.jsonl", number: 1 },
        `${where}: the last line written was number ${head.seq}`,
      );
    }
    const first = this.#first;
    if (first !== undefined && first.seq > this.#removedUpTo + 1) {
      this.#fail(first.line, "Earlier lines are missing, and no line records their removal");
    }
    return {
      ok: this.#bad === undefined,
      entries: this.#entries,
      first: first?.seq,
      sealed: this.#sealed,
      unfinished: this.#unfinished.size,
      ...(this.#bad === undefined ? {} : { bad: this.#bad }),
    };
  }

  #check(line: FileLine): string | undefined {
    const read = readChainLine(line.bytes);
    const torn = this.#torn;
    if (read === undefined) {
      if (torn !== undefined) return NO_LINE;
      this.#torn = line; // the next line must seal it off
      return undefined;
    }
    if (!line.whole) return "The line is incomplete";
    if (!read.intact && torn === undefined) return "The line was changed: its hash does not match";
    if (torn !== undefined) {
      if (!read.intact || read.prev !== this.#hash || !sealsOff(read.fields, torn.bytes)) {
        return NO_LINE;
      }
      this.#torn = undefined;
      this.#sealed++;
    }
    const gone = numberIn(read.fields.lost, "upTo");
    if (gone > 0) return `Lines up to number ${gone} were missing or changed when this was written`;
    const start = this.#first === undefined && (read.seq > 1 || read.prev === GENESIS);
    if (!start && read.prev !== this.#hash) return "The line does not continue the previous line";
    if (!start && read.seq !== this.#seq + 1) return "The line's number is out of order";
    const head = this.#head;
    if (read.seq === head?.seq && read.hash !== head.hash) {
      return "Another line with this number was written: the log was replaced";
    }
    this.#first ??= { seq: read.seq, line };
    this.#last = line;
    this.#entries++;
    this.#seq = read.seq;
    this.#hash = read.hash;
    this.#note(read.fields);
    return undefined;
  }

  #note({ id, status, outcome, removed }: Fields): void {
    if (id !== undefined && status === undefined) this.#unfinished.add(id);
    if (outcome !== undefined) this.#unfinished.delete(outcome);
    this.#removedUpTo = Math.max(this.#removedUpTo, numberIn(removed, "upTo"));
  }

  #fail({ file, number }: Pick<FileLine, "file" | "number">, problem: string): void {
    this.#bad ??= { file, line: number, problem };
  }
}

const NO_LINE = "This is not a line of the log";
const TORN = "The line is torn; the next entry will seal it off";

/** Whether a line seals off the torn one before it. */
function sealsOff({ sealed }: Fields, torn: Uint8Array): boolean {
  return isRecord(sealed) && sealed.sha256 === sha256(torn);
}

function numberIn(value: unknown, name: string): number {
  const inner = isRecord(value) ? value[name] : undefined;
  return typeof inner === "number" ? inner : 0;
}

/** A file of the log, opened at one moment. */
interface OpenFile {
  readonly path: string;
  readonly file: Deno.FsFile;
  readonly size: number;
}

interface FileLine {
  /** The file's name. */
  readonly file: string;
  /** The line's number in it, from 1. */
  readonly number: number;
  /** Its bytes, without the line feed. */
  readonly bytes: Uint8Array;
  /** Whether it ends with a line feed. */
  readonly whole: boolean;
}

/** Reads all lines of a log as it was at one moment, between two writes, oldest first. */
async function* linesIn(folder: AuditFolder): AsyncGenerator<FileLine, void, undefined> {
  using opened = new DisposableStack();
  for (const { path, file, size } of await openFiles(folder, opened)) {
    let number = 0;
    for await (const [bytes, whole] of linesOf(file, size)) {
      yield { file: basename(path), number: ++number, bytes, whole };
    }
  }
}

/** Opens the files. Later writers need not wait. */
async function openFiles(folder: AuditFolder, opened: DisposableStack): Promise<OpenFile[]> {
  for (;;) {
    using stack = new DisposableStack();
    const current = await folder.openForReading(folder.current);
    if (current !== undefined) {
      stack.use(current);
      await current.lock(false); // waits until nobody is writing a line or rotating the file
      if (folder.sizeOfCurrent(current) === undefined) continue;
    }
    const files: OpenFile[] = [];
    for (const { path } of await folder.rotated()) {
      const file = await folder.openForReading(path);
      if (file === undefined) continue; // it was removed as the oldest one
      stack.use(file);
      files.push({ path, file, size: (await file.stat()).size });
    }
    if (current !== undefined) {
      files.push({ path: folder.current, file: current, size: (await current.stat()).size });
      await current.unlock();
    }
    opened.use(stack.move());
    return files;
  }
}

async function* linesOf(
  file: Deno.FsFile,
  size: number,
): AsyncGenerator<[bytes: Uint8Array, whole: boolean], void, undefined> {
  const splitter = lineSplitter();
  const buffer = new Uint8Array(CHUNK_BYTES);
  for (let left = size; left > 0;) {
    const count = await file.read(buffer.subarray(0, Math.min(left, CHUNK_BYTES)));
    if (count === null) break;
    left -= count;
    for (const line of splitter.add(buffer.subarray(0, count))) yield [line, true];
  }
  const rest = splitter.takeRest();
  if (rest.length > 0) yield [rest, false];
}
