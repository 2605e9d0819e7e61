import { onAbort } from "../../base/signals.ts";
import { lstatIfPresent } from "../../files/safe.ts";
import type { Fields } from "./entry.ts";
import type { AuditFolder } from "./folder.ts";
import { CHUNK_BYTES, lineSplitter, readChainLine } from "./file.ts";

/** Reads a log while it is written, across its rotated files. Creates nothing. */
export class AuditTail implements Disposable {
  readonly #folder: AuditFolder;
  #file: Deno.FsFile | undefined;
  #splitter = lineSplitter();
  #seq = 0;

  /** @param folder The log's folder. */
  constructor(folder: AuditFolder) {
    this.#folder = folder;
  }

  /** Reads the complete lines that were written since the last time, except damaged ones. */
  async *read(signal?: AbortSignal): AsyncGenerator<Fields, void, undefined> {
    this.#file ??= await this.#next();
    while (this.#file !== undefined) {
      const size = this.#folder.sizeOfCurrent(this.#file); // before reading, so that its end is final
      yield* this.#readFile(this.#file, signal);
      if (size !== undefined) return;
      const next = await this.#next(this.#file);
      this.#file.close();
      this.#file = next;
      this.#splitter = lineSplitter();
    }
  }

  [Symbol.dispose](): void {
    this.#file?.close();
  }

  async *#readFile(
    file: Deno.FsFile,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<Fields, void, undefined> {
    const buffer = new Uint8Array(CHUNK_BYTES);
    for (let count = await file.read(buffer); count !== null; count = await file.read(buffer)) {
      signal?.throwIfAborted();
      for (const bytes of this.#splitter.add(buffer.subarray(0, count))) {
        const line = readChainLine(bytes);
        if (line === undefined || line.seq <= this.#seq) continue;
        this.#seq = line.seq;
        yield line.fields;
      }
    }
  }

  /** Opens the file after another, or the oldest one if that is gone. */
  async #next(last?: Deno.FsFile): Promise<Deno.FsFile | undefined> {
    const after = last === undefined ? -1 : await this.#numberOf(last);
    const successor = async () =>
      (await this.#folder.rotated()).find(({ number }) => number > after)?.path;
    for (;;) {
      const next = await successor();
      const file = await this.#folder.openForReading(next ?? this.#folder.current);
      // The current file may have been rotated before it was opened.
      if (next !== undefined || await successor() === undefined) return file;
      file?.close();
    }
  }

  /** The number of a rotated file; -1 if it was removed. */
  async #numberOf(file: Deno.FsFile): Promise<number> {
    const { ino } = await file.stat();
    for (const { number, path } of await this.#folder.rotated()) {
      if ((await lstatIfPresent(path))?.ino === ino) return number;
    }
    return -1;
  }
}

/** Yields once at the start, and whenever a log may have changed. The folder must exist. */
export async function* auditChanges(
  folder: AuditFolder,
  signal: AbortSignal,
): AsyncGenerator<void, void, undefined> {
  if (signal.aborted) return;
  using watcher = Deno.watchFs(folder.path, { recursive: false });
  using _end = onAbort(signal, () => watcher[Symbol.dispose]()); // may be called twice, unlike close()
  yield;
  for await (const { paths } of watcher) {
    if (paths.some((path) => path.endsWith(".jsonl"))) yield;
  }
}
