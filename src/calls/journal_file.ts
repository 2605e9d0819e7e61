import { join } from "node:path";
import type { DatabaseSync, SQLInputValue, StatementSync } from "node:sqlite";
import { z } from "zod";
import { ConfigError } from "../base/errors.ts";
import { messageOf } from "../base/message_of.ts";

/** The fields with which a journal identifies a call. */
export interface JournalledCall {
  /** The id that was made in the kernel. */
  readonly id: string;
  /** A hash of the whole request. */
  readonly hash: string;
  /** The kind of request, as in `ApprovalRequest.kind`. */
  readonly kind: string;
  readonly serverName: string;
  readonly toolName: string;
}

const record = z.object({
  /** The hash of its first request. */
  hash: z.string(),
  /** Asked about, decided on but not sent, sent but not answered, or over. */
  state: z.enum(["waiting", "decided", "sent", "done"]),
  /** When it was first requested, in milliseconds. */
  asked: z.int(),
  /** The decision, as JSON. */
  decision: z.string().nullable(),
  /** The arguments as edited by an approver, as JSON. */
  edited: z.string().nullable(),
  /** How it ended. */
  status: z.string().nullable(),
  /** The line that answers it, if it is kept. */
  answer: z.string().nullable(),
});

/** A journal's record of a call. */
export type CallRecord = Readonly<z.infer<typeof record>>;

const waitingCall = z.object({
  id: z.string(),
  kind: z.string(),
  serverName: z.string(),
  toolName: z.string(),
  /** When it was first requested, in milliseconds. */
  asked: z.int(),
});

/** A call on which nobody has decided. */
export type WaitingRecord = Readonly<z.infer<typeof waitingCall>>;

const WAITING = "SELECT id, kind, server AS serverName, tool AS toolName, asked FROM calls " +
  "WHERE state = 'waiting' ORDER BY seq LIMIT 100";

const VERSION = 1;
const TABLE = `CREATE TABLE calls (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  hash TEXT NOT NULL,
  kind TEXT NOT NULL,
  server TEXT NOT NULL,
  tool TEXT NOT NULL,
  state TEXT NOT NULL,
  claim TEXT NOT NULL,
  asked INTEGER NOT NULL,
  changed INTEGER NOT NULL,
  decision TEXT,
  edited TEXT,
  status TEXT,
  answer TEXT
) STRICT`;

/** How many calls are kept, and how much of their answers, before the oldest are forgotten. */
const KEPT_CALLS = 4096;
const KEPT_ANSWERS = 32 * 2 ** 20;
/** The new calls, and the bytes of new answers, after which old records are removed. */
const PRUNE_CALLS = 256;
const PRUNE_ANSWERS = 8 * 2 ** 20;
/** The hard limit on the size of a file. */
const MAX_BYTES = 128 * 2 ** 20;
const PAGE_BYTES = 4096;
/** How long to wait for a file that another host holds. */
const BUSY_MS = 500;

/**
 * The file that records a session's calls, in the order of their first row, regardless of clocks.
 * Several hosts may have it open. Only the host that last claimed a call takes its steps, so of two
 * hosts that both hold a call at most one sends it.
 *
 * The system has each step before the next one begins, so it survives the end of this process.
 * Waiting for the disk would take longer than the call, and gain nothing: the end of the machine ends
 * the kernel too, so no code is left to ask again.
 */
export class JournalFile implements Disposable {
  readonly path: string;
  readonly #database: DatabaseSync;
  readonly #claim = crypto.randomUUID();
  readonly #statements = new Map<string, StatementSync>();
  #newCalls = 0;
  #newAnswers = 0;

  private constructor(path: string, database: DatabaseSync) {
    this.path = path;
    this.#database = database;
  }

  /** Opens the file, and creates it if it is missing. */
  static async open(folder: string): Promise<JournalFile> {
    const path = pathIn(folder);
    try {
      await Deno.mkdir(folder, { recursive: true, mode: 0o700 });
      await makePrivate(path);
      // Imported only here: Node has it since version 22, and no other session needs it.
      const { DatabaseSync } = await import("node:sqlite");
      const database = new DatabaseSync(path);
      try {
        prepare(database);
      } catch (error) {
        database.close();
        throw error;
      }
      return new JournalFile(path, database);
    } catch (error) {
      throw new ConfigError(
        `Cannot use the call journal ${path}: ${messageOf(error)}. Without it, calls of this ` +
          "session could be made twice: repair the file, or end the session and start another",
        { cause: error },
      );
    }
  }

  /** Records a requested call, or returns its existing record, and claims it unless it was sent. */
  begin({ id, hash, kind, serverName, toolName }: JournalledCall): CallRecord | undefined {
    const now = Date.now();
    const isNew = this.#run(
      "INSERT INTO calls (id, hash, kind, server, tool, state, claim, asked, changed) " +
        "VALUES (?, ?, ?, ?, ?, 'waiting', ?, ?, ?) ON CONFLICT (id) DO NOTHING",
      id,
      hash,
      kind,
      serverName,
      toolName,
      this.#claim,
      now,
      now,
    );
    if (isNew) {
      if (++this.#newCalls >= PRUNE_CALLS) this.#prune();
      return undefined;
    }
    this.#run(
      "UPDATE calls SET claim = ? WHERE id = ? AND hash = ? AND state IN ('waiting', 'decided')",
      this.#claim,
      id,
      hash,
    );
    return this.find(id);
  }

  /** Returns the record of a call. */
  find(id: string): CallRecord | undefined {
    return record.optional().parse(this.#statement("SELECT * FROM calls WHERE id = ?").get(id));
  }

  /** Records a decision. Returns `false` if another host has the call. */
  decide(id: string, decision: string, edited: string | null): boolean {
    return this.#run(
      "UPDATE calls SET state = 'decided', decision = ?, edited = ?, changed = ? " +
        "WHERE id = ? AND claim = ? AND state IN ('waiting', 'decided')",
      decision,
      edited,
      Date.now(),
      id,
      this.#claim,
    );
  }

  /**
   * Records that a call is sent, and its decision. Returns `false` if another host has the call.
   */
  send(id: string, decision: string | null = null): boolean {
    return this.#run(
      "UPDATE calls SET state = 'sent', decision = ifnull(?1, decision), changed = ? " +
        "WHERE id = ? AND claim = ? AND (state = 'decided' OR state = 'waiting' AND ?1 NOT NULL)",
      decision,
      Date.now(),
      id,
      this.#claim,
    );
  }

  /** Records the outcome of a call; an answer that is too large is not kept. */
  end(id: string, status: string, answer: string | null): void {
    const isNoted = this.#run(
      "UPDATE calls SET state = 'done', status = ?, answer = ?, edited = NULL, changed = ? " +
        "WHERE id = ? AND claim = ? AND state <> 'done'",
      status,
      answer,
      Date.now(),
      id,
      this.#claim,
    );
    if (!isNoted) return;
    this.#newAnswers += answer?.length ?? 0;
    if (this.#newAnswers >= PRUNE_ANSWERS) this.#prune();
  }

  /** Ends all calls that were not sent. */
  endUnsent(status: string, answer: string): void {
    this.#run(
      "UPDATE calls SET state = 'done', status = ?, answer = ?, edited = NULL, changed = ? " +
        "WHERE state IN ('waiting', 'decided')",
      status,
      answer,
      Date.now(),
    );
  }

  /** Claims all calls that were not sent: the previous host has gone, or has been detached. */
  claimAll(): void {
    this.#run("UPDATE calls SET claim = ? WHERE state IN ('waiting', 'decided')", this.#claim);
  }

  /** Forgets undecided calls, except the given ones and those that another host has by now. */
  forgetWaiting(but: readonly string[]): void {
    this.#run(
      "DELETE FROM calls WHERE state = 'waiting' AND claim = ? " +
        "AND id NOT IN (SELECT value FROM json_each(?))",
      this.#claim,
      JSON.stringify(but),
    );
  }

  /** The undecided calls, oldest first, at most a hundred. */
  waiting(): WaitingRecord[] {
    return z.array(waitingCall).parse(this.#statement(WAITING).all());
  }

  /** Like {@linkcode waiting}, for a file that another process has open. */
  static async waitingIn(folder: string): Promise<WaitingRecord[]> {
    const { DatabaseSync } = await import("node:sqlite");
    const path = pathIn(folder);
    try {
      using database = new DatabaseSync(path, { readOnly: true });
      return z.array(waitingCall).parse(database.prepare(WAITING).all());
    } catch (cause) {
      throw new ConfigError(`Cannot read the call journal ${path}: ${messageOf(cause)}`, { cause });
    }
  }

  [Symbol.dispose](): void {
    this.#database.close();
  }

  /** Forgets old calls. Sent ones stay: forgotten, they could be sent again. */
  #prune(): void {
    this.#newCalls = 0;
    this.#newAnswers = 0;
    this.#run(
      "DELETE FROM calls WHERE seq <= (SELECT max(seq) FROM calls) - ? " +
        "AND state <> 'sent' AND (state = 'done' OR claim <> ?)",
      KEPT_CALLS,
      this.#claim,
    );
    this.#run(
      "UPDATE calls SET answer = NULL WHERE seq IN (SELECT seq FROM (SELECT seq, " +
        "sum(length(CAST(answer AS BLOB))) OVER (ORDER BY seq DESC) AS size FROM calls WHERE answer IS NOT NULL) " +
        "WHERE size > ?)",
      KEPT_ANSWERS,
    );
  }

  /** Runs a statement. Returns whether it changed anything. */
  #run(sql: string, ...values: readonly SQLInputValue[]): boolean {
    return this.#statement(sql).run(...values).changes > 0;
  }

  #statement(sql: string): StatementSync {
    return this.#statements.getOrInsertComputed(sql, () => this.#database.prepare(sql));
  }
}

function pathIn(folder: string): string {
  return join(folder, "calls.db");
}

/** Creates the file as private: SQLite would make it, and those beside it, readable by others. */
async function makePrivate(path: string): Promise<void> {
  try {
    (await Deno.open(path, { createNew: true, write: true, mode: 0o600 })).close();
  } catch (error) {
    if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
  }
  if (!(await Deno.lstat(path)).isFile) throw new Error("it is not a file");
}

/** Checks the whole file, or creates it. Nothing in a planted file runs. */
function prepare(database: DatabaseSync): void {
  database.exec(`PRAGMA busy_timeout = ${BUSY_MS}; PRAGMA trusted_schema = OFF`);
  const { user_version: version } = z.object({ user_version: z.int() })
    .parse(database.prepare("PRAGMA user_version").get());
  if (version > VERSION) throw new Error("it was written by a newer version of ipybox");
  database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL");
  database.exec(`PRAGMA max_page_count = ${MAX_BYTES / PAGE_BYTES}`);
  database.exec(`PRAGMA journal_size_limit = ${PRUNE_ANSWERS}`);
  database.exec("BEGIN IMMEDIATE");
  const tables = () => database.prepare("SELECT sql FROM sqlite_schema WHERE sql NOT NULL").all();
  if (tables().length === 0) database.exec(`${TABLE}; PRAGMA user_version = ${VERSION}`);
  database.exec("COMMIT");
  const schema = z.array(z.object({ sql: z.string() })).parse(tables());
  if (schema.length !== 1 || schema[0]?.sql !== TABLE) throw new Error("it is not a call journal");
  const [{ quick_check: state } = { quick_check: "" }] = z
    .array(z.object({ quick_check: z.string() }))
    .parse(database.prepare("PRAGMA quick_check(1)").all());
  if (state !== "ok") throw new Error("it is damaged");
}
