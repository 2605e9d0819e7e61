import { type Logger, silentLogger } from "../../base/log.ts";
import { type AuditEntry, type AuditOutcome, entryFields, outcomeFields } from "./entry.ts";
import { AuditFile } from "./file.ts";
import { AuditFolder } from "./folder.ts";
import { LogHead } from "./head.ts";

/** Options of {@linkcode AuditLog}. */
export interface AuditLogOptions {
  /** The workspace. */
  readonly workspace: string;
  /** A name for the session in the lines of requests, if several sessions write to the log. */
  readonly session?: string;
  /** Patterns with `*` and `?` for more names of arguments whose values are omitted. */
  readonly redact?: readonly string[];
  /**
   * The size at which a new file begins, in bytes.
   *
   * @default {16777216}
   */
  readonly maxBytes?: number;
  /**
   * The limit on the total size of the full files from before this log's first line, in bytes:
   * beyond it, the oldest are removed.
   *
   * @default {1073741824}
   */
  readonly maxTotalBytes?: number;
  /** Receives failures to write the log. */
  readonly log?: Logger;
}

/** A line waiting to be written, and the promise of its writing. */
interface Waiting {
  /** The JSON text instead of the entry, whose arguments may be large. */
  readonly text: string;
  readonly written: PromiseWithResolvers<boolean>;
}

/** The most lines in one write. */
const BATCH = 100;
/** How long outcomes are collected before they are written, because nobody waits for them. */
const GATHER_MS = 20;

/**
 * The audit log of a workspace, in the user's state folder: a line for each request and its outcome,
 * chained by hash. Several processes may write to it. Disposing it waits until everything is
 * written.
 *
 * A line survives the end of this process once {@linkcode append} reports that it is written. A
 * line that a killed process left incomplete is sealed off.
 *
 * @example
 * ```ts
 * import { AuditLog, verifyAuditLog } from "@ipybox/ipybox/audit";
 *
 * const workspace = await Deno.makeTempDir();
 * {
 *   await using log = new AuditLog({ workspace });
 *   const id = crypto.randomUUID();
 *   const written = await log.append({
 *     id,
 *     time: new Date(),
 *     kind: "tool",
 *     server: "time",
 *     tool: "now",
 *     arguments: {},
 *     decision: "allow",
 *     by: "approver",
 *   });
 *   if (written) log.appendOutcome({ id, time: new Date(), status: "ok", durationMs: 3 });
 * }
 * console.error((await verifyAuditLog(workspace)).entries); // 2
 * ```
 */
export class AuditLog implements AsyncDisposable {
  readonly #options: AuditLogOptions;
  readonly #log: Logger;
  #opened: Promise<OpenLog> | undefined;
  #waiting: Waiting[] = [];
  #writing: Promise<void> | undefined;
  #gathering: ReturnType<typeof setTimeout> | undefined;
  #failed = false;
  #closed = false;

  /**
   * Creates the log. Nothing is read or written before the first line.
   *
   * @param options Its location, omissions and limits.
   */
  constructor(options: AuditLogOptions) {
    this.#options = options;
    this.#log = options.log ?? silentLogger;
  }

  /**
   * Adds the line of a request.
   *
   * @param entry The request.
   * @returns Whether it was written. Failures are logged. Never rejects.
   */
  async append(entry: AuditEntry): Promise<boolean> {
    let key: Uint8Array;
    try {
      ({ key } = await this.#open());
    } catch (error) {
      this.#reportLost(error, 1);
      return false;
    }
    const { redact: names, session } = this.#options;
    const fields = { session, ...entryFields(entry, { names, key }) };
    const written = this.#queue(JSON.stringify(fields)); // all of it is exact JSON or our own
    this.#begin();
    return await written;
  }

  /**
   * Adds the line of an outcome soon. Neither waits nor fails: failures are logged.
   *
   * @param outcome The outcome of a request whose line has no status.
   */
  appendOutcome(outcome: AuditOutcome): void {
    void this.#queue(JSON.stringify(outcomeFields(outcome)));
    this.#gathering ??= setTimeout(() => {
      this.#gathering = undefined;
      this.#begin();
    }, GATHER_MS);
  }

  /** Waits until all lines are written or have failed. */
  async flush(): Promise<void> {
    await this.#opened?.catch(() => {}); // its first caller handles the error
    if (this.#waiting.length > 0) this.#begin();
    while (this.#writing !== undefined) await this.#writing;
  }

  /** Waits until all lines are written or have failed, and closes the file. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    await this.flush();
    clearTimeout(this.#gathering);
    (await this.#opened)?.file[Symbol.dispose]();
  }

  async #open(): Promise<OpenLog> {
    try {
      return await (this.#opened ??= openLog(this.#options, this.#log));
    } catch (error) {
      this.#opened = undefined; // the next line tries again
      throw error;
    }
  }

  #queue(text: string): Promise<boolean> {
    const written = Promise.withResolvers<boolean>();
    this.#waiting.push({ text, written });
    return written.promise;
  }

  #begin(): void {
    this.#writing ??= this.#writeAll();
  }

  async #writeAll(): Promise<void> {
    await Promise.resolve(); // batches lines that were added in the same turn
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, BATCH);
      const done = await this.#write(batch.map(({ text }) => text));
      for (const { written } of batch) written.resolve(done);
    }
    if (this.#closed) (await this.#opened)?.file[Symbol.dispose](); // a call may end later than the log
    this.#writing = undefined;
  }

  async #write(lines: readonly string[]): Promise<boolean> {
    try {
      await (await this.#open()).file.write(lines);
      this.#failed = false;
      return true;
    } catch (error) {
      this.#reportLost(error, lines.length);
      return false;
    }
  }

  #reportLost(error: unknown, lines: number): void {
    if (!this.#failed) this.#log.error(`Cannot write the audit log: ${error}`);
    else this.#log.debug(`Audit log: lost ${lines} more lines: ${error}`);
    this.#failed = true;
  }
}

/** The parts for writing lines. */
interface OpenLog {
  readonly file: AuditFile;
  /** The key of the hashes that replace secrets. */
  readonly key: Uint8Array;
}

async function openLog(options: AuditLogOptions, log: Logger): Promise<OpenLog> {
  const { workspace, maxBytes = 16 * 2 ** 20, maxTotalBytes = 2 ** 30 } = options;
  const folder = await AuditFolder.make(workspace);
  const file = new AuditFile(folder, new LogHead(folder.path, log), { maxBytes, maxTotalBytes });
  return { file, key: await folder.key() };
}
