/**
 * The end of a workspace's log, kept beside it to detect the loss of the last lines.
 *
 * @module
 */
import { join } from "node:path";
import type { Logger } from "../../base/log.ts";
import { readHostileFile, replaceFile } from "../../files/safe.ts";
import { isRecord } from "../../json/exact.ts";
import { parsedJson } from "../../json/plain.ts";

/** The end of a chain of lines. */
export interface ChainEnd {
  /** The number of the last line; 0 before the first. */
  readonly seq: number;
  readonly hash: string;
}

/** The last line that was written. */
export class LogHead {
  readonly #path: string;
  readonly #log: Logger | undefined;
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
    const text = await readHostileFile(this.#path);
    const kept = text === undefined ? undefined : parsedJson(text);
    if (!isRecord(kept)) return undefined;
    const { seq, hash } = kept;
    return typeof seq === "number" && typeof hash === "string" ? { seq, hash } : undefined;
  }

  /** Keeps the end. The log itself is written even if that fails. */
  async keep({ seq, hash }: ChainEnd): Promise<void> {
    try {
      await replaceFile(this.#path, JSON.stringify({ seq, hash }), 0o600, {
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
      "Cannot keep the end of the audit log, so `ipybox audit --verify` will not notice lines " +
        `missing there: ${error}`,
    );
  }
}
