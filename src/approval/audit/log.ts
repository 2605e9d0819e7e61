import { Alarm } from "../../base/alarm.ts";
import { type Logger, silentLogger } from "../../base/log.ts";
import { RateLimit } from "../../base/rate_limit.ts";
import { sha256 } from "../../json/digest.ts";
import {
  type AuditEntry,
  type AuditOutcome,
  boundedName,
  entryFields,
  type Fields,
  outcomeFields,
  withoutDetails,
} from "./entry.ts";
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
   * The total size of full files from before this log's first line at which the oldest are removed,
   * in bytes.
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
/** How long requests are counted before a line reports them. */
const COUNT_MS = 30_000;

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
  #folder: Promise<AuditFolder> | undefined;
  #file: AuditFile | undefined;
  #key: Promise<Uint8Array> | undefined;
  readonly #flood = new FloodGuard();
  /** Calls in progress that were only counted: their outcomes would belong to no line. */
  readonly #countedIds = new Set<string>();
  #waiting: Waiting[] = [];
  #writing: Promise<void> | undefined;
  #summaryTimer: ReturnType<typeof setTimeout> | undefined;
  readonly #gathering = new Alarm(() => this.#begin(), { keepsAlive: true });
  #failed = false;
  #closed = false;

  /**
   * Creates the log. Nothing is read or written before the first line.
   *
   * @param options Its location, what it omits and its limits.
   */
  constructor(options: AuditLogOptions) {
    this.#options = options;
    this.#log = options.log ?? silentLogger;
  }

  /**
   * Adds the line of a request. If there are too many requests, they are counted instead.
   *
   * @param entry The request.
   * @returns Whether it was written or counted. Failures are logged. Never rejects.
   */
  async append(entry: AuditEntry): Promise<boolean> {
    let key: Uint8Array;
    try {
      key = await (this.#key ??= this.#open().then((folder) => folder.key()));
    } catch (error) {
      this.#key = undefined;
      this.#reportLost(error, 1);
      return false;
    }
    const { redact: names, session } = this.#options;
    const fields = { session, ...entryFields(entry, { names, key }) };
    const line = this.#flood.judge(
      entry,
      JSON.stringify(fields), // all of it is exact JSON or our own
      () => JSON.stringify(withoutDetails(fields)),
    );
    if (line !== undefined) return await this.#add(line);
    if (entry.status === undefined) this.#countedIds.add(entry.id);
    this.#summaryTimer ??= setTimeout(() => this.#addSummary(), COUNT_MS);
    Deno.unrefTimer(this.#summaryTimer);
    return true;
  }

  /**
   * Adds the line of an outcome soon. Neither waits nor fails: failures are logged.
   *
   * @param outcome The outcome of a request whose line has no status.
   */
  appendOutcome(outcome: AuditOutcome): void {
    if (this.#countedIds.delete(outcome.id)) return;
    void this.#queue(JSON.stringify(outcomeFields(outcome)));
    if (!this.#gathering.isSet) this.#gathering.set(GATHER_MS);
  }

  /** Waits until all lines are written or have failed. */
  async flush(): Promise<void> {
    await this.#key?.catch(() => {}); // its first caller handles the error
    this.#addSummary();
    if (this.#waiting.length > 0) this.#begin();
    while (this.#writing !== undefined) await this.#writing;
  }

  /** Waits until all lines are written or have failed, and closes the file. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    await this.flush();
    this.#gathering[Symbol.dispose]();
    this.#file?.[Symbol.dispose]();
  }

  async #open(): Promise<AuditFolder> {
    try {
      return await (this.#folder ??= AuditFolder.make(this.#options.workspace));
    } catch (error) {
      this.#folder = undefined; // the next line tries again
      throw error;
    }
  }

  async #opened(): Promise<AuditFile> {
    const folder = await this.#open();
    const { maxBytes = 16 * 2 ** 20, maxTotalBytes = 2 ** 30 } = this.#options;
    const head = new LogHead(folder.path, this.#log);
    return this.#file ??= new AuditFile(folder, head, { maxBytes, maxTotalBytes });
  }

  #add(text: string): Promise<boolean> {
    const written = this.#queue(text);
    this.#begin();
    return written;
  }

  #queue(text: string): Promise<boolean> {
    const written = Promise.withResolvers<boolean>();
    this.#waiting.push({ text, written });
    return written.promise;
  }

  #begin(): void {
    this.#gathering.unset();
    this.#writing ??= this.#writeAll();
  }

  #addSummary(): void {
    clearTimeout(this.#summaryTimer);
    this.#summaryTimer = undefined;
    const summary = this.#flood.takeSummary();
    if (summary === undefined) return;
    void this.#add(JSON.stringify({ session: this.#options.session, ...summary }));
  }

  async #writeAll(): Promise<void> {
    await Promise.resolve(); // batches lines that were added in the same turn
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, BATCH);
      const done = await this.#write(batch.map(({ text }) => text));
      for (const { written } of batch) written.resolve(done);
    }
    if (this.#closed) this.#file?.[Symbol.dispose](); // a call may end later than the log
    this.#writing = undefined;
  }

  async #write(lines: readonly string[]): Promise<boolean> {
    try {
      await (await this.#opened()).write(lines);
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

/** About 3 MB a day for each budget. */
const PER_SECOND = 32;
/** The burst, in bytes, of complete refusals and of counted kinds of requests. */
const SMALL_BURST = 2 ** 18;
/** The burst, in bytes, of allowed calls: first with their arguments, then without. */
const LARGE_BURST = 2 ** 24;
/** The size of a line's chain fields, and of an allowed call's outcome. */
const CHAINED_BYTES = 200;
const OUTCOME_BYTES = 500;
/** The most kinds of requests to count separately. */
const MAX_KINDS = 20;

/** A kind of request and its count. */
interface Counted
  extends Pick<AuditEntry, "kind" | "server" | "tool" | "decision" | "by" | "status"> {
  count: number;
}

/** The limits of bytes to write for requests. */
class Budgets {
  readonly refusals = new RateLimit(PER_SECOND, SMALL_BURST);
  readonly details = new RateLimit(PER_SECOND, LARGE_BURST);
  readonly lines = new RateLimit(PER_SECOND, LARGE_BURST);
}

/** Keeps executed code from flooding the log, and so from pushing older lines out: further ones are counted. */
class FloodGuard {
  readonly #budgets = new Budgets();
  /** Approvers' decisions have separate budgets, which nothing else can use up. */
  readonly #approvers = new Budgets();
  readonly #kinds = new RateLimit(PER_SECOND, SMALL_BURST);
  #counted = new Map<string, Counted>();
  #span: { readonly since: Date; until: Date; sha256: string } | undefined;

  /** Decides what to write of a request: its text, a shorter one, or nothing. */
  judge(entry: AuditEntry, text: string, shorter: () => string): string | undefined {
    const budgets = entry.by === "approver" ? this.#approvers : this.#budgets;
    if (entry.decision !== "allow") {
      if (budgets.refusals.take(bytesOf(text))) return text;
    } else {
      if (budgets.details.take(bytesOf(text) + OUTCOME_BYTES)) return text;
      const short = shorter();
      if (budgets.lines.take(bytesOf(short) + OUTCOME_BYTES)) return short;
    }
    this.#count(entry, text);
    return undefined;
  }

  /** Reports what was counted since the last summary. */
  takeSummary(): Fields | undefined {
    const span = this.#span;
    if (span === undefined) return undefined;
    const kinds = [...this.#counted.values()];
    this.#counted = new Map();
    this.#span = undefined;
    const count = kinds.reduce((sum, { count }) => sum + count, 0);
    const requests = this.#kinds.take(bytesOf(JSON.stringify(kinds))) ? kinds : undefined;
    return {
      time: new Date().toISOString(),
      leftOut: {
        count,
        since: span.since.toISOString(),
        until: span.until.toISOString(),
        last: span.sha256,
        requests,
      },
    };
  }

  #count({ time, kind, server, tool, decision, by, status }: AuditEntry, text: string): void {
    this.#span ??= { since: time, until: time, sha256: "" };
    this.#span.until = time;
    this.#span.sha256 = sha256(text);
    const named = {
      kind,
      server: boundedName(server),
      tool: boundedName(tool),
      decision,
      by,
      status,
    };
    const full = this.#counted.size >= MAX_KINDS && !this.#counted.has(JSON.stringify(named));
    const shown = full ? OTHERS : named;
    const key = JSON.stringify(shown);
    const counted = this.#counted.get(key);
    if (counted === undefined) this.#counted.set(key, { ...shown, count: 1 });
    else counted.count++;
  }
}

/** Stands for further kinds. */
const OTHERS = { kind: "…", server: "…", tool: "…" } as const;

function bytesOf(text: string): number {
  return new TextEncoder().encode(text).length + CHAINED_BYTES;
}
