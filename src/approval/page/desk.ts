import { Deadline } from "../../base/deadline.ts";
import { messageOf } from "../../base/message_of.ts";
import { settledWithin } from "../../base/signals.ts";
import { randomToken } from "../../base/tokens.ts";
import { sha256 } from "../../json/digest.ts";
import { parseExact, stringifyExact } from "../../json/exact.ts";
import type { ElicitationAnswer } from "../../mcp/questions.ts";
import type { ApprovalChannel, ApprovalWaitOptions } from "../channel.ts";
import { DECIDED } from "../question_queue.ts";
import { type ElicitationChannel, ElicitationRequest } from "../questions.ts";
import {
  type ApprovalCall,
  type ApprovalRequest,
  type ApprovalResponse,
  NO_REASON,
  type Remember,
} from "../request.ts";
import { type PersonRequest, readAnswer } from "../wire.ts";
import { excerptOf, type ShownValue, shownValue, viewOf } from "./view.ts";

export const LINK_MS = 5 * 60_000;
const GRACE_MS = 5000;
/**
 * The time limit for a page to load once its link is opened: the browser may have to start first.
 */
const LOAD_MS = 30_000;

/** The channels for calls and for MCP servers' questions, and what pages show about them. */
export interface PersonDesks {
  readonly channel: ApprovalChannel;
  readonly elicitations: ElicitationChannel;
  /** The workspace of the code that asks, which pages name. */
  readonly workspace?: string | undefined;
  /** Finds calls that wait in other sessions. Pages list them, too. */
  readonly elsewhere?: (() => Promise<readonly PendingCall[]>) | undefined;
  /** Reports how calls end, until disposed. Pages show this with the decisions on them. */
  readonly followEnds?: ((follower: (end: CallEnd) => void) => Disposable) | undefined;
  /** How long a link can be opened. */
  readonly linkMs?: number | undefined;
  /** How long to wait for a closed page to come back, since people reload pages. */
  readonly graceMs?: number | undefined;
}

/** How a call ended. */
export interface CallEnd {
  readonly callId: string;
  /** `"ok"`, or the type of the error. */
  readonly status: string;
  /** How long it took besides the decision, in milliseconds. */
  readonly durationMs: number;
}

export interface WaitingRequest {
  /** As in `ApprovalRequest.kind`. */
  readonly kind: string;
  readonly serverName: string;
  readonly toolName: string;
  readonly since: Date;
}

/** A call that waits for a decision in another session: it cannot be decided here. */
export interface PendingCall extends WaitingRequest {
  /** The session's id. */
  readonly session: string;
  readonly name: string | undefined;
  /** Whether a program that asks for the decision is attached to it. */
  readonly isAttached: boolean;
}

/** How often to look for calls in other sessions while a page is open. */
const LOOK_MS = 5000;
/** The most of them to show, and the longest name. Code controls both. */
const MAX_ELSEWHERE = 50;
const MAX_NAME = 2000;

/**
 * The state behind the approval page: the requests, who may see them, and who is there.
 * While somebody is there or expected, it is the fallback of both channels: calls without another
 * approver, and questions of servers, wait for an answer on a page.
 */
export class PageDesk implements Disposable {
  /** The requests. */
  readonly board: RequestBoard;
  /** The open pages. */
  readonly presence: Presence = new Presence();

  /**
   * The page that each one-time code expects, by the code's hash: the time of a look-up reveals
   * nothing.
   */
  readonly #invitations = new Map<string, Disposable>();
  /** The hashes of the sessions' cookies, by session id. */
  readonly #sessions = new Map<string, string>();
  readonly #stack = new DisposableStack();
  readonly #desks: PersonDesks;
  #fallback: Disposable | undefined;
  /** The expectation of the page whose link was opened. */
  #loading: Disposable | undefined;
  #visited = false;
  readonly #closed = Promise.withResolvers<void>();
  #looking: Promise<void> | undefined;

  constructor(desks: PersonDesks) {
    this.#desks = desks;
    this.board = this.#stack.use(new RequestBoard(desks));
    this.#stack.use(this.presence.onChange((state) => this.#stand(state)));
    this.#stack.use(this.presence);
  }

  /** Why nobody can be asked, in words for the calling code. */
  get absence(): string {
    return this.#visited
      ? "The approval page was closed"
      : "Nobody opened the approval page in time";
  }

  /** Creates a one-time code, and expects a page until the code is void. */
  invite(): string {
    const code = randomCode();
    const key = sha256(normalized(code));
    const forget = () => void this.#invitations.delete(key);
    const { linkMs = LINK_MS } = this.#desks;
    this.#invitations.set(key, this.presence.expect(linkMs, forget));
    return code;
  }

  /** Exchanges a code for a session. A code works once. */
  redeem(code: string): PageSession | undefined {
    const invitation = this.#invitations.get(sha256(normalized(code)));
    if (invitation === undefined) return undefined;
    this.#loading?.[Symbol.dispose]();
    this.#loading = this.presence.expect(LOAD_MS); // the page itself comes next
    invitation[Symbol.dispose]();
    const session = { id: randomToken().slice(0, 32), token: randomToken() };
    this.#sessions.set(session.id, sha256(session.token));
    return session;
  }

  /** Whether there is a session with this id. */
  hasSession(id: string): boolean {
    return this.#sessions.has(id);
  }

  /** Whether a cookie's value belongs to the session. */
  admits(id: string, token: string): boolean {
    return this.#sessions.get(id) === sha256(token);
  }

  /** Whether an approver in another process is connected, who is asked before pages. */
  get isAttended(): boolean {
    return this.#desks.channel.attended;
  }

  /** Asks about something that can only be allowed or denied as it is. */
  async ask(
    call: ApprovalCall,
    options: Pick<ApprovalWaitOptions, "signal" | "approver">,
  ): Promise<ApprovalResponse> {
    const check = () => "this cannot be edited: deny it and say what should change";
    const { signal, approver } = options;
    return await this.#desks.channel.request(call, {
      signal,
      check,
      ...(this.isAttended ? {} : { approver }),
    });
  }

  /** Counts a connected page as open until the returned object is disposed. */
  enter(): Disposable {
    this.#visited = true;
    const { elsewhere, graceMs = GRACE_MS } = this.#desks;
    const entered = this.presence.enter(graceMs);
    this.#loading?.[Symbol.dispose]();
    if (elsewhere !== undefined) this.#looking ??= this.#look(elsewhere);
    return entered;
  }

  /** Looks for calls in other sessions repeatedly while a page is open. */
  async #look(elsewhere: NonNullable<PersonDesks["elsewhere"]>): Promise<void> {
    while (this.presence.state === "open") {
      this.board.showElsewhere(await elsewhere());
      if (await settledWithin(this.#closed.promise, LOOK_MS)) return;
    }
    this.#looking = undefined;
  }

  [Symbol.dispose](): void {
    this.#closed.resolve();
    this.#stack[Symbol.dispose]();
    this.#fallback?.[Symbol.dispose]();
  }

  #stand(state: PageState): void {
    if (state === "away") {
      this.#fallback?.[Symbol.dispose]();
      this.#fallback = undefined;
    } else {
      this.#fallback ??= this.#setFallbacks();
    }
  }

  /** Lets both channels' questions wait for an answer on the board. */
  #setFallbacks(): Disposable {
    const fallbacks = new DisposableStack();
    for (const desk of [this.#desks.channel, this.#desks.elicitations]) {
      fallbacks.use(desk.setFallback(() => {}, () => this.absence));
    }
    return fallbacks;
  }
}

/** The result of redeeming a code: the page's path, and the secret that opens it. */
interface PageSession {
  /** The random part of the page's path. */
  readonly id: string;
  /** The value of its cookie. */
  readonly token: string;
}

/**
 * The characters of codes, without letters that look like digits or each other: people may type
 * them.
 */
const ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/**
 * Creates 80 random bits in groups of four characters: impossible to guess while they are valid.
 */
function randomCode(): string {
  const letters = [...crypto.getRandomValues(new Uint8Array(16))]
    .map((byte) => ALPHABET.charAt(byte % ALPHABET.length)); // 256 is a multiple of 32
  return letters.join("").replace(/.{4}(?=.)/g, "$&-");
}

function normalized(code: string): string {
  return code.replace(/[\s-]/g, "").toUpperCase();
}

/** The fate of an answer: it counted, another one was first, or the request is unknown. */
type AnswerFate = "counted" | "late" | "unknown";

/** How a request ended, as pages show it. */
interface Outcome {
  readonly result:
    | "allowed"
    | "edited"
    | "denied"
    /** A remembered answer to another request decided it. */
    | "settled"
    | "answered"
    | "declined"
    | "dismissed"
    | "approval_timeout"
    | "approval_unavailable"
    | "cancelled";
  /** Why there was no answer, or why the person refused, if they gave a reason. */
  readonly reason?: string | undefined;
  /** The edited arguments, and the beginning of their JSON. */
  readonly arguments?: ShownValue;
  readonly excerpt?: string;
  readonly remember?: Remember | undefined;
}

/** How an allowed call ended. */
type Ending = Omit<CallEnd, "callId">;

/** A request that is over. */
interface SettledRequest {
  readonly callId: string | undefined;
  /** The request as JSON text. */
  readonly view: string;
  readonly outcome: Outcome & { readonly id: string; ending?: Ending };
}

interface OpenRequest {
  readonly request: PersonRequest;
  /** The request as JSON text. */
  readonly view: string;
}

/** The most decided requests to keep, and the most text of them. The audit log has all of them. */
const MAX_SETTLED = 100;
const MAX_SETTLED_CHARACTERS = 8 * 2 ** 20;

/** The requests of both channels as pages see them: waiting and settled ones. */
class RequestBoard implements Disposable {
  readonly #open = new Map<string, OpenRequest>();
  /** The oldest first. */
  readonly #settled: SettledRequest[] = [];
  readonly #watchers = new Set<(message: string) => void>();
  readonly #stack = new DisposableStack();
  readonly #workspace: string | undefined;
  #settledCharacters = 0;
  #dropped = 0;
  /** The calls that wait in other sessions, as a JSON list, and whether there are more. */
  #elsewhere = '"elsewhere":[],"more":false';

  /** @param desks Whose requests are shown. */
  constructor({ channel, elicitations, workspace, followEnds }: PersonDesks) {
    this.#workspace = workspace;
    if (followEnds !== undefined) this.#stack.use(followEnds((end) => this.#end(end)));
    this.#stack.use(
      channel.watch((request) =>
        this.#add(request, (response) => decisionOutcome(request, response))
      ),
    );
    this.#stack.use(
      elicitations.watch((request) =>
        this.#add(request, (answer) => answerOutcome(request, answer))
      ),
    );
  }

  /** The whole state, as one JSON message. */
  snapshot(): string {
    const pending = [...this.#open.values()].map(({ view }) => view);
    const workspace = JSON.stringify(this.#workspace ?? null);
    return `{"type":"board","workspace":${workspace},"pending":[${pending.join(",")}],` +
      `"settled":[${
        this.#settled.map(settledText).join(",")
      }],"dropped":${this.#dropped},${this.#elsewhere}}`;
  }

  /** Shows the calls that wait in other sessions, the oldest first. */
  showElsewhere(calls: readonly PendingCall[]): void {
    const shown = calls.toSorted((one, other) => one.since.getTime() - other.since.getTime())
      .slice(0, MAX_ELSEWHERE)
      .map(({ kind, serverName, toolName, since, session, name, isAttached }) => ({
        kind,
        server_name: clip(serverName),
        tool_name: clip(toolName),
        asked_at: since.getTime(),
        session,
        name,
        is_attached: isAttached,
      }));
    const more = calls.length > MAX_ELSEWHERE;
    const elsewhere = `"elsewhere":${JSON.stringify(shown)},"more":${more}`;
    if (elsewhere === this.#elsewhere) return;
    this.#elsewhere = elsewhere;
    this.#notify(`{"type":"elsewhere",${elsewhere}}`);
  }

  /** Calls back with each change as a JSON message, until disposed. */
  onMessage(callback: (message: string) => void): Disposable {
    this.#watchers.add(callback);
    return { [Symbol.dispose]: () => void this.#watchers.delete(callback) };
  }

  /** Answers a request. Throws a `TypeError` if the answer cannot be used. */
  async decide(id: string, answer: string): Promise<AnswerFate> {
    const value = parseBody(answer);
    const open = this.#open.get(id);
    if (open === undefined) return "unknown";
    const settle = readAnswer(open.request, value, "page");
    if (settle === undefined) throw new TypeError("Not an answer to this request");
    return await settle() ? "counted" : "late";
  }

  [Symbol.dispose](): void {
    this.#stack[Symbol.dispose]();
  }

  #add<Answer>(
    request: PersonRequest & { readonly response: Promise<Answer> },
    outcomeOf: (answer: Answer) => Outcome,
  ): void {
    const since = ("askedAt" in request ? request.askedAt : undefined) ?? new Date();
    const open: OpenRequest = { request, view: viewOf(request, since) };
    this.#open.set(request.id, open);
    request.response.then((answer) => this.#settle(open, outcomeOf(answer)));
    this.#notify(`{"type":"asked","request":${open.view}}`);
  }

  #settle({ request, view }: OpenRequest, ended: Outcome): void {
    const { id } = request;
    // The call during which a server asks a question continues.
    const callId = request instanceof ElicitationRequest ? undefined : request.callId;
    const outcome = { id, ...ended, endedAt: Date.now() };
    this.#open.delete(id);
    this.#settled.push({ callId, view, outcome });
    this.#settledCharacters += view.length;
    while (
      this.#settled.length > MAX_SETTLED || this.#settledCharacters > MAX_SETTLED_CHARACTERS
    ) {
      this.#settledCharacters -= this.#settled.shift()?.view.length ?? 0;
      this.#dropped++;
    }
    this.#notify(`{"type":"settled","outcome":${JSON.stringify(outcome)}}`);
  }

  /** Reports the end of an allowed call. A call that was not allowed ends with its decision. */
  #end({ callId, ...ending }: CallEnd): void {
    const settled = this.#settled.findLast((settled) => settled.callId === callId);
    if (settled === undefined || !isAllowed(settled.outcome)) return;
    settled.outcome.ending = ending;
    this.#notify(JSON.stringify({ type: "ended", id: settled.outcome.id, ending }));
  }

  #notify(message: string): void {
    for (const watcher of this.#watchers) watcher(message);
  }
}

function settledText({ view, outcome }: SettledRequest): string {
  return `{"request":${view},"outcome":${JSON.stringify(outcome)}}`;
}

function isAllowed({ result }: Outcome): boolean {
  return result === "allowed" || result === "edited" || result === "settled";
}

function clip(name: string): string {
  return name.length > MAX_NAME ? `${name.slice(0, MAX_NAME)}…` : name;
}

function decisionOutcome(request: ApprovalRequest, response: ApprovalResponse): Outcome {
  const { remember } = response;
  if (response === DECIDED) return { result: "settled" };
  if (!response.accepted) {
    const { type } = response;
    const reason = response.reason === NO_REASON ? undefined : response.reason;
    return { result: type === "approval_rejected" ? "denied" : type, reason, remember };
  }
  const sent = stringifyExact(response.arguments);
  return sent === request.argumentsJson ? { result: "allowed", remember } : {
    result: "edited",
    arguments: shownValue(response.arguments),
    excerpt: excerptOf(sent),
    remember,
  };
}

/** Omits the answer: it may be secret, and is for the server alone. */
function answerOutcome({ signal }: ElicitationRequest, { action }: ElicitationAnswer): Outcome {
  if (signal.aborted) return { result: "cancelled", reason: signal.reason.message };
  return { result: ANSWERS[action] };
}

const ANSWERS = { accept: "answered", decline: "declined", cancel: "dismissed" } as const;

function parseBody(text: string): unknown {
  try {
    return parseExact(text);
  } catch (error) {
    throw new TypeError(`Not JSON: ${messageOf(error)}`);
  }
}

/** Whether somebody is at a page: one is open, one may be opened any moment, or neither. */
export type PageState = "open" | "expected" | "away";

/** Tracks the open pages and the expected ones. */
class Presence implements Disposable {
  readonly #expectations = new Set<Deadline>();
  readonly #watchers = new Set<(state: PageState) => void>();
  #open = 0;
  #notified: PageState = "away";

  /** The current state. */
  get state(): PageState {
    if (this.#open > 0) return "open";
    return this.#expectations.size > 0 ? "expected" : "away";
  }

  /** Calls back whenever the state has changed, until disposed. */
  onChange(callback: (state: PageState) => void): Disposable {
    this.#watchers.add(callback);
    return { [Symbol.dispose]: () => void this.#watchers.delete(callback) };
  }

  /** Expects a page for this time, or until disposed. */
  expect(timeoutMs: number, onEnd?: () => void): Disposable {
    const forget = () => {
      deadline[Symbol.dispose]();
      onEnd?.();
      if (this.#expectations.delete(deadline)) this.#notify();
    };
    // Expecting a page does not keep the process alive.
    const deadline = new Deadline(timeoutMs, { keepsAlive: false, onPassed: forget });
    this.#expectations.add(deadline);
    this.#notify();
    return { [Symbol.dispose]: forget };
  }

  /** Counts an open page until disposed, and then expects it back. */
  enter(graceMs: number): Disposable {
    let here = true;
    this.#open++;
    this.#notify();
    return {
      [Symbol.dispose]: () => {
        if (!here) return;
        here = false;
        this.#open--;
        this.expect(graceMs);
      },
    };
  }

  /** Ends all expectations. */
  [Symbol.dispose](): void {
    for (const deadline of this.#expectations) deadline[Symbol.dispose]();
    this.#expectations.clear();
    this.#notify();
  }

  #notify(): void {
    const { state } = this;
    if (state === this.#notified) return;
    this.#notified = state;
    for (const watcher of this.#watchers) watcher(state);
  }
}
