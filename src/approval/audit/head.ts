/**
 * The end of a workspace's log, kept beside it to detect the loss of the last lines.
 *
 * @module
 */
import { join } from "node:path";
import type { Logger } from "../../base/log.ts";
import { writeAll } from "../../files/artifact_folder.ts";
import { openPlainFile, readHostileFile } from "../../files/safe.ts";
import { isRecord } from "../../json/exact.ts";
import { parsedJson } from "../../json/plain.ts";

/** The end of a chain of lines. */
export interface ChainEnd {
  /** The number of the last line; 0 before the first. */
  readonly seq: number;
  readonly hash: string;
}

/** More than the longest end, so that each one covers the one before it. */
const LENGTH = 120;

/** The last line that was written. */
export class LogHead implements Disposable {
  readonly #path: string;
  readonly #log: Logger | undefined;
  /** Stays open: each call waits for a write here, which then takes a microsecond. */
  #file: Deno.FsFile | undefined;
  #failed = false;

  /** @param folder The log's folder. */
  constructor(folder: string, log?: Logger) {
    this.#path = join(folder, "audit.head.json");
    this.#log = log;
  }

  /** Reads the end that was kept. Only logs failures: the audit log is written anyway. */
  async readIfPossible(): Promise<ChainEnd | undefined> {
    try {
      return await this.read();
    } catch (error) {
      this.#say(error);
      return undefined;
    }
  }

  /** Reads the end that was kept, if any. */
  async read(): Promise<ChainEnd | undefined> {
    let text: string | undefined;
    let again = await readHostileFile(this.#path);
    do { // a writer may be in the middle of it
      text = again;
      again = await readHostileFile(this.#path);
    } while (again !== text);
    const kept = text === undefined ? undefined : parsedJson(text);
    if (!isRecord(kept)) return undefined;
    const { seq, hash } = kept;
    return typeof seq === "number" && typeof hash === "string" ? { seq, hash } : undefined;
  }

  /** Keeps the end. The log itself is written even if that fails. */
  async keep({ seq, hash }: ChainEnd): Promise<void> {
    try {
      this.#file ??= await openPlainFile(this.#path, "write");
      this.#file.seekSync(0, Deno.SeekMode.Start);
      const text = JSON.stringify({ seq, hash }).padEnd(LENGTH);
      writeAll(this.#file, new TextEncoder().encode(`${text}\n`));
    } catch (error) {
      this.#say(error);
    }
  }

  /** Closes the file. The next end opens it again. */
  [Symbol.dispose](): void {
    this.#file?.close();
    this.#file = undefined;
  }

  #say(error: unknown): void {
    if (this.#failed) return;
    this.#failed = true;
    this.#log?.warn(
      "Cannot keep the end of the audit log, so `ipybox audit --verify` will not notice lines " +
        `missing there: ${error}`,
    );
  }
}
