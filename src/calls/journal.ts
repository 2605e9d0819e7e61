import { setImmediate } from "node:timers";
import { z } from "zod";
import type { CallTarget, ObservedCall } from "../approval/observed_call.ts";
import type { WaitingRequest } from "../approval/page/backend.ts";
import type { GateDecision } from "../approval/gate.ts";
import { ToolCallError } from "../base/errors.ts";
import { limitedLogger, type Logger, silentLogger } from "../base/log.ts";
import { messageOf } from "../base/message_of.ts";
import { abortable, settledWithin } from "../base/signals.ts";
import { sha256 } from "../json/digest.ts";
import { parseExact, sealObject, stringifyExact } from "../json/exact.ts";
import type { JournalEntry } from "./calls.ts";
import { type IncomingCall, LOST } from "./kernel_call_server.ts";
import {
  type CallRecord,
  JournalFile,
  type JournalledCall,
  type WaitingRecord,
} from "./journal_file.ts";
import { errorText } from "./wire.ts";

export interface WaitingCall extends WaitingRequest {
  readonly id: string;
}

/** An attempt to get the answer to a call: its stream may end before the call does. */
type Attempt = Pick<IncomingCall, "signal" | "push">;

/** Longer answers are not kept for another attempt. */
const MAX_ANSWER = 2 ** 20;
/** Longer edited arguments are not kept: the call needs approval again. */
const MAX_EDITED = 2 ** 16;
/** How long to wait at the end for calls that were sent. */
const FAREWELL_MS = 2000;

/**
 * The fate of each call of a durable session, for repeated requests: code asks again after the
 * connection broke, for example because the host was replaced. A call is sent at most once.
 *
 * | state | a repeated id |
 * | --- | --- |
 * | `waiting` | is asked about again |
 * | `decided` | is judged again by current conditions, and then sent |
 * | `sent` | fails with `outcome_unknown` |
 * | `done` | gets the same answer |
 *
 * Each state is written before the action that it announces. If writing fails, so does the action.
 * Code gets an answer before it is written: until then, the call is `sent`, and is not sent again.
 */
export class CallJournal implements Disposable {
  readonly #file: JournalFile;
  readonly #log: Logger;
  readonly #flights = new Map<string, Flight>();
  #isLeft = false;

  private constructor(file: JournalFile, log: Logger) {
    this.#file = file;
    this.#log = limitedLogger(log);
  }

  /** Opens or creates the journal of a session, in a folder that only its host can see. */
  static async open(folder: string, log: Logger = silentLogger): Promise<CallJournal> {
    const file = await JournalFile.open(folder);
    file.claimAll();
    return new CallJournal(file, log);
  }

  /** The oldest hundred calls that wait for a decision, including those that wait for a host. */
  waiting(): WaitingCall[] {
    return waitingCalls(this.#file.waiting());
  }

  /** Like {@linkcode waiting}, for a session that another host may have. */
  static async waitingIn(folder: string): Promise<WaitingCall[]> {
    return waitingCalls(await JournalFile.waitingIn(folder));
  }

  /** Makes a call, joins it if it is under way, or returns its answer, which may be an error. */
  async once(
    call: JournalledCall,
    attempt: Attempt,
    make: (entry: Flight) => Promise<string>,
  ): Promise<string> {
    for (;;) {
      attempt.signal.throwIfAborted();
      if (this.#isLeft) throw new ToolCallError("cancelled", "The session is being left");
      const flight = this.#flights.get(call.id);
      if (flight === undefined) break;
      requireSame(flight.call, call);
      if (!flight.isLeft) return await flight.join(attempt);
      await abortable(flight.over, attempt.signal);
    }
    const found = this.#write(() => this.#file.begin(call));
    if (found !== undefined) requireSame({ ...call, hash: found.hash }, call);
    if (found?.state === "done") return found.answer ?? notKept(call, found);
    const flight = new Flight(call, {
      file: this.#file,
      found,
      log: this.#log,
      write: (step) => this.#write(step),
    });
    this.#flights.set(call.id, flight);
    flight.over.then(() => this.#flights.delete(call.id));
    return await flight.fly(attempt, make);
  }

  /**
   * Forgets waiting calls that no code asks for any more. If code still does, the call is a new
   * one.
   */
  forgetUnasked(): void {
    if (this.#isLeft) return;
    const asked = [...this.#flights.values()].filter(({ isLeft }) => !isLeft).map(({ id }) => id);
    this.#attempt(() => this.#file.forgetWaiting(asked));
  }

  /** Ends all unsent calls for good, and cancels the others: their kernel is gone. */
  cancelAll(): void {
    if (this.#isLeft) return; // they belong to another host
    const cancelled = new ToolCallError("cancelled", "The kernel that called is gone");
    for (const flight of this.#flights.values()) flight.cancel(cancelled);
    this.#attempt(() => this.#file.endUnsent("cancelled", textOf(cancelled)));
  }

  /** Leaves the session to another host. Calls that were sent get a moment to end. */
  async leave(): Promise<void> {
    this.#isLeft = true;
    const flights = [...this.#flights.values()];
    for (const flight of flights) flight.leave();
    if (await settledWithin(Promise.all(flights.map(({ over }) => over)), FAREWELL_MS)) return;
    for (const flight of flights) flight.abandon();
  }

  /** Closes the file. */
  [Symbol.dispose](): void {
    this.#isLeft = true;
    for (const flight of this.#flights.values()) {
      flight.abandon();
      flight.note();
    }
    this.#file[Symbol.dispose]();
  }

  #attempt(step: () => void): void {
    try {
      step();
    } catch (error) {
      this.#log.error(`Cannot write the call journal ${this.#file.path}: ${messageOf(error)}`);
    }
  }

  #write<T>(step: () => T): T {
    try {
      return step();
    } catch (cause) {
      this.#log.error(
        `Cannot write the call journal ${this.#file.path}: ${messageOf(cause)}. No call of this ` +
          "session is made until it can be written: make room on its disk, or end the session",
      );
      const message =
        "The call was not made: the session's journal cannot be written (see ipybox's log)";
      throw new ToolCallError("tool_server_error", message, {}, { cause });
    }
  }
}

/** The parts of a {@linkcode Flight}. */
interface FlightOptions {
  readonly file: JournalFile;
  /** The file's record of the call. */
  readonly found: CallRecord | undefined;
  readonly log: Logger;
  /** Writes a step, or fails with a message for the calling code. */
  readonly write: <T>(step: () => T) => T;
}

const decided = z.object({
  by: z.literal("approver"),
  serverHash: z.string().optional(),
  toolHash: z.string().optional(),
  edited: z.string().optional(),
});

/** A call in progress, for the attempts that wait for it. */
class Flight implements JournalEntry {
  readonly call: JournalledCall;
  readonly askedAt: Date | undefined;
  readonly #options: FlightOptions;
  readonly #attempts = new Set<Attempt>();
  readonly #stop = new AbortController();
  /** Aborts when the call must end. */
  readonly signal: AbortSignal = this.#stop.signal;
  readonly #answer = Promise.withResolvers<string>();
  readonly #over = Promise.withResolvers<void>();
  /** Resolves, never rejects, when the call and its recording have ended. */
  readonly over: Promise<void> = this.#over.promise;
  /** The answer, until it is in the file. */
  #unnoted: string | undefined;
  #step: "unsent" | "sent" | "left" = "unsent";
  #status = "error";
  /** The policy's decision, which is written when the call is sent. */
  #decision: string | undefined;

  constructor(call: JournalledCall, options: FlightOptions) {
    const { found } = options;
    this.call = call;
    this.#options = options;
    this.askedAt = found === undefined ? undefined : past(found.asked);
  }

  get id(): string {
    return this.call.id;
  }

  /** Whether it ends without an outcome, so that it can be made again. */
  get isLeft(): boolean {
    return this.#step === "left";
  }

  /**
   * Makes the call. Its memory counts as the first attempt's, so this ends no earlier than the
   * call.
   */
  async fly(attempt: Attempt, make: (entry: Flight) => Promise<string>): Promise<string> {
    const joined = this.join(attempt);
    joined.catch(() => {});
    try {
      const answer = await make(this);
      // A call that was sent before keeps that state: its outcome stays unknown.
      if (!this.isLeft && this.#options.found?.state !== "sent") this.#unnoted = answer;
      this.#answer.resolve(answer);
    } catch (error) {
      this.#answer.reject(error);
    }
    // Code continues while the answer is written, which takes a twentieth of a fast call.
    setImmediate(() => {
      this.note();
      this.#over.resolve();
    });
    return await joined;
  }

  /** Waits for the answer as long as an attempt lasts. */
  async join(attempt: Attempt): Promise<string> {
    this.#attempts.add(attempt);
    try {
      return await abortable(this.#answer.promise, attempt.signal);
    } finally {
      this.#attempts.delete(attempt);
      if (this.#attempts.size === 0 && attempt.signal.aborted) this.#alone(attempt.signal.reason);
    }
  }

  /** Sends progress to everyone who waits for the answer. */
  push(json: string): void {
    for (const attempt of this.#attempts) attempt.push(json);
  }

  /** Ends it for good. */
  cancel(reason: unknown): void {
    this.#stop.abort(reason);
  }

  /** Ends it without an outcome, unless it was sent. */
  leave(): void {
    if (this.#step !== "sent") this.abandon();
  }

  /** Ends it without an outcome. */
  abandon(): void {
    this.#step = "left";
    this.#stop.abort(LOST);
  }

  /** Writes the answer, if it is not in the file yet. */
  note(): void {
    const { file, log } = this.#options;
    const answer = this.#unnoted;
    if (answer === undefined) return;
    this.#unnoted = undefined;
    try {
      file.end(this.id, this.#status, answer.length > MAX_ANSWER ? null : answer);
    } catch (error) {
      // The call has happened, so everyone who waits gets the answer.
      log.error(`Cannot write the call journal ${file.path}: ${messageOf(error)}`);
    }
  }

  requireUnsent(): void {
    const { found, log } = this.#options;
    if (found?.state !== "sent") return;
    const name = nameOf(this.call);
    log.warn(
      `The outcome of ${name} is unknown: it was sent, and ipybox ended before there was a result. ` +
        `It is not sent again; find out what it has done (call ${this.id})`,
    );
    throw new ToolCallError(
      "outcome_unknown",
      `${name} was sent, but its result was lost when ipybox was restarted. It is not repeated: ` +
        "find out what it has done before you call it again",
    );
  }

  decisionFor(target: CallTarget | undefined): GateDecision | undefined {
    const { found } = this.#options;
    if (found?.state !== "decided" || found.decision === null) return undefined;
    const { data } = decided.safeParse(JSON.parse(found.decision));
    if (data === undefined) return undefined;
    const { by, serverHash, toolHash, edited: editedHash } = data;
    if (serverHash !== target?.serverHash || toolHash !== target?.toolHash) return undefined;
    if (editedHash === undefined) return { decision: "allow", by };
    if (found.edited === null || sha256(found.edited) !== editedHash) return undefined;
    const edited = sealObject(parseExact(found.edited));
    return { decision: "allow", by, edited };
  }

  decided({ decision, target }: Readonly<ObservedCall>): void {
    if (this.isLeft || decision?.decision !== "allow") return; // a refusal is the end of the call
    const { by, reason, edited } = decision;
    const text = edited === undefined ? undefined : stringifyExact(edited);
    const noted = JSON.stringify({
      by,
      reason,
      time: new Date(),
      ...target,
      edited: text === undefined ? undefined : sha256(text),
    });
    const kept = text === undefined || text.length > MAX_EDITED ? null : text;
    // A policy decides anew for the next host, so its decision is written when the call is sent.
    if (by !== "approver") return void (this.#decision = noted);
    const { file, write } = this.#options;
    this.#require(write(() => file.decide(this.id, noted, kept)));
  }

  sending(): void {
    const { file, write } = this.#options;
    this.#require(!this.isLeft && write(() => file.send(this.id, this.#decision)));
    this.#step = "sent";
  }

  ended({ status = "error" }: Readonly<ObservedCall>): void {
    this.#status = status;
  }

  #require(isOurs: boolean): void {
    if (isOurs) return;
    this.abandon(); // the other host records the outcome
    throw new ToolCallError("cancelled", "The session was left before the call was sent");
  }

  #alone(reason: unknown): void {
    if (reason !== LOST) this.cancel(reason);
    else this.leave();
  }
}

function requireSame(known: JournalledCall, asked: JournalledCall): void {
  if (known.hash === asked.hash) return;
  const message = `${nameOf(asked)} was refused: its id ${asked.id} belongs to another call`;
  throw new ToolCallError("tool_server_error", message);
}

function notKept(call: JournalledCall, { status }: CallRecord): never {
  throw new ToolCallError(
    "outcome_unknown",
    `${nameOf(call)} was made and ended with "${status}", but its result was not kept, and the ` +
      "connection broke before it arrived. It is not repeated",
  );
}

function nameOf({ serverName, toolName }: JournalledCall): string {
  return `${serverName}.${toolName}`.slice(0, 200);
}

function textOf({ type, message }: ToolCallError): string {
  return errorText({ type, message });
}

function waitingCalls(records: readonly WaitingRecord[]): WaitingCall[] {
  return records.map(({ asked, ...call }) => ({ ...call, since: past(asked) }));
}

/** A time that is not in the future, in case the clock was set back. */
function past(time: number): Date {
  return new Date(Math.min(time, Date.now()));
}
