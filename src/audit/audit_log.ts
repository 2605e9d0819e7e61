import { type ExactObject, stringifyExact } from "../json/exact.ts";
import { type Logger, silentLogger } from "../log.ts";
import { AuditFolder } from "./audit_folder.ts";
import { type ChainEnd, chainLine, GENESIS, NOTHING, readChainLine, sha256 } from "./chain.ts";
import { redactArguments } from "./redact.ts";

/** One request and what became of it. */
export interface AuditEntry {
  /** The request's id, the same as at the approver. */
  readonly id: string;
  /** When it came. */
  readonly time: Date;
  /** The SHA-256 of the code that made it, as far as that is known. */
  readonly codeHash?: string | undefined;
  /** What asked, as in `ApprovalRequest.kind`. */
  readonly kind: string;
  /** The registered server. */
  readonly server: string;
  /** The tool. */
  readonly tool: string;
  /** The arguments; secrets are left out of the log. */
  readonly arguments: ExactObject;
  /** The arguments that an approver put in their place. */
  readonly edited?: ExactObject | undefined;
  /** What was decided; absent where it failed before. */
  readonly decision?: "allow" | "deny" | undefined;
  /** Who decided: `"policy"`, `"approver"`, or why nobody did. */
  readonly by?: string | undefined;
  /** The rule, or the approver's reason. */
  readonly reason?: string | undefined;
  /** How it ended: `"ok"`, or the type of the error. */
  readonly status: string;
  /** How long it took in all, in milliseconds. */
  readonly durationMs: number;
  /** How long the decision took, in milliseconds. */
  readonly waitMs?: number | undefined;
}

/** Options of {@linkcode AuditLog}. */
export interface AuditLogOptions {
  /** The workspace. */
  readonly workspace: string;
  /** Patterns with `*` and `?` for names of arguments whose values are left out, beside the usual ones. */
  readonly redact?: readonly string[] | undefined;
  /**
   * The size at which a new file is begun, in bytes.
   *
   * @default {16777216}
   */
  readonly maxBytes?: number | undefined;
  /**
   * How many full files are kept.
   *
   * @default {10}
   */
  readonly keep?: number | undefined;
  /** Told when the log cannot be written. */
  readonly log?: Logger | undefined;
}

/** More than the longest line. */
const TAIL_BYTES = 2 ** 20;

/**
 * The audit log of a workspace, `.ipybox/audit.jsonl`: one line for each request, chained by hash.
 * Several processes may write to it. Disposing it waits until all is written.
 *
 * Lines are written behind the calls' backs, in order, and reach the system when they are written: the
 * first at once, those that follow it within milliseconds together. What a killed process had not begun
 * to write is missing, what it had half written is sealed off as such.
 *
 * @example
 * ```ts
 * import { AuditLog, verifyAuditLog } from "@ipybox/ipybox";
 *
 * const workspace = await Deno.makeTempDir();
 * {
 *   await using log = new AuditLog({ workspace });
 *   log.append({
 *     id: crypto.randomUUID(),
 *     time: new Date(),
 *     kind: "tool",
 *     server: "time",
 *     tool: "now",
 *     arguments: {},
 *     decision: "allow",
 *     by: "approver",
 *     status: "ok",
 *     durationMs: 3,
 *   });
 * }
 * console.error((await verifyAuditLog(workspace)).entries); // 1
 * ```
 */
export class AuditLog implements AsyncDisposable {
  readonly #folder: AuditFolder;
  readonly #options: AuditLogOptions;
  readonly #log: Logger;
  /** Lines as JSON texts: the arguments themselves may be large, and are let go. */
  #pending: string[] = [];
  #writing: Promise<void> | undefined;
  #pause: { readonly over: () => void } | undefined;
  /** How the file was left, so that it need not be read again if it still is so. */
  #left:
    | { readonly inode: number | null; readonly size: number; readonly end: ChainEnd }
    | undefined;
  #failed = false;

  /**
   * Makes the log. Nothing is read or written before the first line.
   *
   * @param options Where it is, what it leaves out and how long it gets.
   */
  constructor(options: AuditLogOptions) {
    this.#folder = new AuditFolder(options.workspace);
    this.#options = options;
    this.#log = options.log ?? silentLogger;
  }

  /**
   * Adds a line, soon. Does not wait and does not fail: what cannot be written is told to the log.
   *
   * @param entry The request and what became of it.
   */
  append(entry: AuditEntry): void {
    this.#pending.push(stringifyExact(this.#fields(entry)));
    this.#writing ??= this.#writeAll();
  }

  /** Waits until all is written, or could not be. */
  async flush(): Promise<void> {
    while (this.#writing !== undefined) {
      this.#pause?.over();
      await this.#writing;
    }
  }

  /** Waits until all is written, or could not be. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.flush();
  }

  async #writeAll(): Promise<void> {
    try {
      while (this.#pending.length > 0) {
        await this.#write(this.#pending.splice(0, BATCH));
        this.#failed = false;
        if (this.#pending.length < BATCH) await this.#untilMoreCame();
      }
    } catch (error) {
      this.#left = undefined;
      const lost = this.#pending.splice(0).length;
      if (!this.#failed) this.#log.error(`Cannot write the audit log: ${error}`);
      else this.#log.debug(`Audit log: ${lost} more lines lost: ${error}`);
      this.#failed = true;
    } finally {
      this.#writing = undefined;
    }
  }

  /** Lets lines gather: to write each by itself would take as long as a call. */
  async #untilMoreCame(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, PAUSE_MS);
    this.#pause = { over: resolve };
    await promise;
    this.#pause = undefined;
    clearTimeout(timer);
  }

  async #write(entries: readonly string[]): Promise<void> {
    const { maxBytes = 16 * 2 ** 20, keep = 10 } = this.#options;
    using _lock = await this.#folder.lock();
    let file = await this.#folder.open();
    try {
      const { size, ino } = await file.stat();
      const resumed = this.#left?.inode === ino && this.#left.size === size
        ? { end: this.#left.end, repair: "" }
        : await this.#resume(file, size);
      let end = resumed.end;
      let text = resumed.repair;
      for (const entry of entries) {
        const next = chainLine(entry, end);
        text += `${next.line}\n`;
        end = next.end;
      }
      const bytes = new TextEncoder().encode(text);
      const full = size > 0 && resumed.repair === "" && size + bytes.length > maxBytes;
      if (full) {
        await this.#folder.rotate(keep);
        file.close();
        file = await this.#folder.open();
      }
      await writeAll(file, bytes);
      const left = await file.stat();
      this.#left = { inode: left.ino, size: left.size, end };
    } finally {
      file.close();
    }
  }

  /** Finds where the chain goes on, and seals off what a killed process left of a line. */
  async #resume(file: Deno.FsFile, size: number): Promise<{ end: ChainEnd; repair: string }> {
    const tail = await readTail(file, size);
    const lineEnd = tail.lastIndexOf(LINE_FEED);
    const torn = tail.subarray(lineEnd + 1);
    const lastLine = new TextDecoder().decode(
      tail.subarray(tail.lastIndexOf(LINE_FEED, lineEnd - 1) + 1, Math.max(lineEnd, 0)),
    );
    const end = lineEnd < 0 ? await this.#endOfRotated() : endOf(lastLine);
    if (torn.length === 0) return { end, repair: "" };
    const seal = JSON.stringify({
      time: new Date().toISOString(),
      sealed: { bytes: torn.length, sha256: sha256(torn) },
    });
    const sealed = chainLine(seal, end);
    return { end: sealed.end, repair: `\n${sealed.line}\n` };
  }

  async #endOfRotated(): Promise<ChainEnd> {
    const last = (await this.#folder.rotated()).at(-1);
    if (last === undefined) return NOTHING;
    using file = await Deno.open(last[1]);
    const tail = new TextDecoder().decode(await readTail(file, (await file.stat()).size));
    return endOf(tail.trimEnd().split("\n").at(-1) ?? "");
  }

  #fields(entry: AuditEntry): Record<string, unknown> {
    const { id, time, codeHash, kind, server, tool, edited, decision, by, reason, status } = entry;
    const { durationMs, waitMs } = entry;
    const names = this.#options.redact;
    return {
      time: time.toISOString(),
      id,
      codeHash,
      kind,
      server,
      tool,
      arguments: redactArguments(entry.arguments, names),
      edited: edited === undefined ? undefined : redactArguments(edited, names),
      decision,
      by,
      reason: reason?.slice(0, 1000),
      status,
      durationMs: Math.round(durationMs * 10) / 10,
      waitMs: waitMs === undefined ? undefined : Math.round(waitMs * 10) / 10,
    };
  }
}

const LINE_FEED = 10;
/** How many lines are written at once. */
const BATCH = 100;
/** How long lines gather after others were written. */
const PAUSE_MS = 20;

/** A last line that is whole but wrong was changed: the chain goes on so that this stays visible. */
function endOf(line: string): ChainEnd {
  return readChainLine(line) ?? { seq: 0, hash: GENESIS };
}

async function readTail(file: Deno.FsFile, size: number): Promise<Uint8Array> {
  const length = Math.min(size, TAIL_BYTES);
  await file.seek(size - length, Deno.SeekMode.Start);
  const bytes = new Uint8Array(length);
  let read = 0;
  while (read < length) {
    const count = await file.read(bytes.subarray(read));
    if (count === null) break;
    read += count;
  }
  return bytes.subarray(0, read);
}

async function writeAll(file: Deno.FsFile, bytes: Uint8Array): Promise<void> {
  for (let rest = bytes; rest.length > 0;) rest = rest.subarray(await file.write(rest));
}
