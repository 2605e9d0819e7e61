import { basename } from "node:path";
import type { AuditFolder } from "./audit_folder.ts";
import { LineSplitter } from "./line_splitter.ts";

/** A file of the log, open as it was at one moment. */
interface OpenFile {
  readonly path: string;
  readonly file: Deno.FsFile;
  readonly size: number;
}

/** A line of a file of the log. */
export interface FileLine {
  /** The file's name. */
  readonly file: string;
  /** Which line it is there, from 1. */
  readonly number: number;
  /** Its bytes, without the line feed. */
  readonly bytes: Uint8Array;
  /** Whether it has a line feed. */
  readonly whole: boolean;
}

const CHUNK_BYTES = 2 ** 18;

/**
 * All files of a log as they are at one moment, between two writes. Nothing is made or changed, and
 * nobody who writes later has to wait.
 */
export class AuditSnapshot implements Disposable {
  readonly #files: readonly OpenFile[];

  private constructor(files: readonly OpenFile[]) {
    this.#files = files;
  }

  /** Opens the files. */
  static async take(folder: AuditFolder): Promise<AuditSnapshot> {
    for (;;) {
      using stack = new DisposableStack();
      const current = await folder.openForReading(folder.current);
      if (current !== undefined) {
        stack.use(current);
        await current.lock(false); // nobody is within a line, or puts the file aside
        if (!folder.isCurrent(current)) continue;
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
      stack.move();
      return new AuditSnapshot(files);
    }
  }

  /** Reads all lines, the oldest first. Each file can be read once. */
  async *lines(): AsyncGenerator<FileLine, void, undefined> {
    for (const { path, file, size } of this.#files) {
      let number = 0;
      for await (const [bytes, whole] of linesOf(file, size)) {
        yield { file: basename(path), number: ++number, bytes, whole };
      }
    }
  }

  [Symbol.dispose](): void {
    for (const { file } of this.#files) file.close();
  }
}

async function* linesOf(
  file: Deno.FsFile,
  size: number,
): AsyncGenerator<[bytes: Uint8Array, whole: boolean], void, undefined> {
  const splitter = new LineSplitter();
  const buffer = new Uint8Array(CHUNK_BYTES);
  for (let left = size; left > 0;) {
    const count = await file.read(buffer.subarray(0, Math.min(left, CHUNK_BYTES)));
    if (count === null) break;
    left -= count;
    for (const line of splitter.add(buffer.subarray(0, count))) yield [line, true];
  }
  if (splitter.rest.length > 0) yield [splitter.rest, false];
}
