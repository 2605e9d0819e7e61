import { createHash } from "node:crypto";
import type { ApprovalChannel, ApprovalWaitOptions } from "../channel.ts";
import type { ApprovalCall, ApprovalRequest, ApprovalResponse } from "../request.ts";
import { outcomeOf, type PageDecision, type RequestView, viewOf } from "./wire.ts";

/** Options of the approval page. */
export interface ApprovalPageOptions {
  /**
   * How long a link can be opened, in milliseconds.
   *
   * @default {300000}
   */
  linkTimeoutMs?: number;
  /**
   * How long a page that has gone is expected back, in milliseconds, since people reload pages.
   *
   * @default {5000}
   */
  graceMs?: number;
}

const LINK_TIMEOUT_MS = 5 * 60_000;
const GRACE_MS = 5000;

/**
 * What the application's door serves pages from: the requests, who may see them, and who is there.
 * While somebody is there or expected, it is the channel's deputy: calls without another approver
 * wait for a decision on a page.
 */
export class PageDesk implements Disposable {
  /** The requests. */
  readonly board: RequestBoard;
  /** The open pages. */
  readonly presence: Presence = new Presence();

  readonly #sessions = new PageSessions();
  readonly #stack = new DisposableStack();
  readonly #linkTimeoutMs: number;
  readonly #graceMs: number;
  readonly #channel: ApprovalChannel;
  #deputy: Disposable | undefined;
  #visited = false;

  constructor(channel: ApprovalChannel, options: ApprovalPageOptions = {}) {
    this.#linkTimeoutMs = options.linkTimeoutMs ?? LINK_TIMEOUT_MS;
    this.#graceMs = options.graceMs ?? GRACE_MS;
    this.#channel = channel;
    this.board = this.#stack.use(new RequestBoard(channel));
    this.#stack.use(this.presence.onChange((state) => this.#stand(state)));
    this.#stack.use(this.presence);
  }

  /** Why nobody can be asked, in words for the code that called. */
  get absence(): string {
    return this.#visited
      ? "The approval page was closed"
      : "Nobody opened the approval page in time";
  }

  /** Makes a one-time code, and expects a page until it is void. */
  invite(): string {
    const expected = this.presence.expect(this.#linkTimeoutMs);
    return this.#sessions.invite(this.#linkTimeoutMs, (used) => {
      if (used) this.presence.expect(this.#graceMs); // the page itself comes next
      expected[Symbol.dispose]();
    });
  }

  /** Whether an approver in another process is connected, who is asked before pages. */
  get isAttended(): boolean {
    return this.#channel.attended;
  }

  /** Asks about something that can only be allowed or denied as it is. */
  async ask(
    call: ApprovalCall,
    options: Pick<ApprovalWaitOptions, "signal" | "approver">,
  ): Promise<ApprovalResponse> {
    const check = () => "this cannot be edited: deny it, and say what should be different";
    const { signal, approver } = options;
    return await this.#channel.request(call, {
      signal,
      check,
      ...(this.isAttended ? {} : { approver }),
    });
  }

  /** Exchanges a code for a session; `undefined` where the code is not good, or no longer. */
  redeem(code: string): PageSession | undefined {
    return this.#sessions.redeem(code);
  }

  /** Whether there is a session with this id. */
  hasSession(id: string): boolean {
    return this.#sessions.has(id);
  }

  /** Whether a cookie's value belongs to the session. */
  admits(id: string, token: string): boolean {
    return this.#sessions.admits(id, token);
  }

  /** A page has connected. Disposing the returned object means that it has gone. */
  enter(): Disposable {
    this.#visited = true;
    return this.presence.enter(this.#graceMs);
  }

  [Symbol.dispose](): void {
    this.#stack[Symbol.dispose]();
    this.#deputy?.[Symbol.dispose]();
  }

  #stand(state: PageState): void {
    if (state === "away") {
      this.#deputy?.[Symbol.dispose]();
      this.#deputy = undefined;
    } else {
      // It shows on the board, from where it is decided.
      this.#deputy ??= this.#channel.attachDeputy(() => {}, () => this.absence);
    }
  }
}

/** What a redeemed code gives: where its page is, and what opens it. */
interface PageSession {
  /** The random part of the page's path. */
  readonly id: string;
  /** The value of its cookie. */
  readonly token: string;
}

/** A code that has not been used yet. */
interface Invitation {
  /** When it is void, by `performance.now()`. */
  readonly until: number;
  /** Called once it is used or void. */
  readonly onEnd: (used: boolean) => void;
}

/** More are not kept: the oldest make room. */
const MAX_INVITATIONS = 32;
const MAX_SESSIONS = 64;

/**
 * The one-time codes and the sessions that they were exchanged for. Secrets are kept as hashes, so
 * that looking one up tells nothing by the time it takes.
 */
class PageSessions {
  readonly #invitations = new Map<string, Invitation>();
  readonly #sessions = new Map<string, string>();

  /** Makes a code. */
  invite(lifeMs: number, onEnd: (used: boolean) => void): string {
    const code = randomCode();
    this.#invitations.set(hash(normalized(code)), { until: performance.now() + lifeMs, onEnd });
    this.#dropOldInvitations();
    return code;
  }

  /** Exchanges a code for a session. A code works once. */
  redeem(code: string): PageSession | undefined {
    const key = hash(normalized(code));
    const invitation = this.#invitations.get(key);
    if (invitation === undefined) return undefined;
    this.#invitations.delete(key);
    const used = performance.now() <= invitation.until;
    if (!used) {
      invitation.onEnd(false);
      return undefined;
    }
    const session = { id: randomHex(16), token: randomHex(32) };
    this.#sessions.set(session.id, hash(session.token));
    const [oldest] = this.#sessions.keys();
    if (this.#sessions.size > MAX_SESSIONS && oldest !== undefined) this.#sessions.delete(oldest);
    invitation.onEnd(true);
    return session;
  }

  /** Whether there is a session with this id. */
  has(id: string): boolean {
    return this.#sessions.has(id);
  }

  /** Whether a cookie's value belongs to the session. */
  admits(id: string, token: string): boolean {
    return this.#sessions.get(id) === hash(token);
  }

  #dropOldInvitations(): void {
    for (const [key, { until, onEnd }] of this.#invitations) {
      const void_ = until < performance.now();
      if (!void_ && this.#invitations.size <= MAX_INVITATIONS) continue;
      this.#invitations.delete(key);
      onEnd(false);
    }
  }
}

/** Without the letters that look like digits or like each other: people may type it. */
const ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/** 80 random bits in groups of four characters: beyond guessing while it is good. */
function randomCode(): string {
  const letters = [...crypto.getRandomValues(new Uint8Array(16))]
    .map((byte) => ALPHABET.charAt(byte % ALPHABET.length)); // 256 is a multiple of 32
  return letters.join("").replace(/.{4}(?=.)/g, "$&-");
}

function normalized(code: string): string {
  return code.replace(/[\s-]/g, "").toUpperCase();
}

function randomHex(bytes: number): string {
  return crypto.getRandomValues(new Uint8Array(bytes)).toHex();
}

function hash(secret: string): string {
  return createHash("sha256").update(secret).digest("hex");
}

/** What became of a decision: it counted, another one was first, or nobody knows the request. */
type DecisionFate = "counted" | "late" | "unknown";

interface OpenRequest {
  readonly request: ApprovalRequest;
  readonly view: RequestView;
  /** Whether what was decided on pages counted. */
  readonly answers: Promise<boolean>[];
}

/** How much of what was decided is kept. The audit log has all of it. */
const MAX_SETTLED = 500;
const MAX_SETTLED_CHARACTERS = 8 * 2 ** 20;

/** The requests of a channel as pages see them: those that wait, and those that were decided. */
class RequestBoard implements Disposable {
  readonly #open = new Map<string, OpenRequest>();
  /** Messages as JSON, the oldest first. */
  readonly #settled: string[] = [];
  readonly #watchers = new Set<(message: string) => void>();
  readonly #watch: Disposable;
  #settledCharacters = 0;
  #dropped = 0;

  /** @param channel Whose requests are shown. */
  constructor(channel: ApprovalChannel) {
    this.#watch = channel.watch((request) => this.#add(request));
  }

  /** All that is known, as one JSON message. */
  snapshot(): string {
    const pending = [...this.#open.values()].map(({ view }) => JSON.stringify(view));
    return `{"type":"board","pending":[${pending.join(",")}],` +
      `"settled":[${this.#settled.join(",")}],"dropped":${this.#dropped}}`;
  }

  /** Calls back with each change as a JSON message, until disposed. */
  onMessage(callback: (message: string) => void): Disposable {
    this.#watchers.add(callback);
    return { [Symbol.dispose]: () => void this.#watchers.delete(callback) };
  }

  /** Decides a request. */
  async decide(id: string, decision: PageDecision): Promise<DecisionFate> {
    const open = this.#open.get(id);
    if (open === undefined) return "unknown";
    const counted = answer(open.request, decision);
    open.answers.push(counted);
    return await counted ? "counted" : "late";
  }

  [Symbol.dispose](): void {
    this.#watch[Symbol.dispose]();
  }

  #add(request: ApprovalRequest): void {
    const open: OpenRequest = { request, view: viewOf(request), answers: [] };
    this.#open.set(request.id, open);
    request.response.then((response) => this.#settle(open, response));
    this.#tell(JSON.stringify({ type: "asked", request: open.view }));
  }

  async #settle(open: OpenRequest, response: ApprovalResponse): Promise<void> {
    const { request, view } = open;
    const outcome = outcomeOf(request, response, await decidedByPage(open));
    this.#open.delete(request.id);
    const entry = JSON.stringify({ request: view, outcome });
    this.#settled.push(entry);
    this.#settledCharacters += entry.length;
    while (
      this.#settled.length > MAX_SETTLED || this.#settledCharacters > MAX_SETTLED_CHARACTERS
    ) {
      this.#settledCharacters -= this.#settled.shift()?.length ?? 0;
      this.#dropped++;
    }
    this.#tell(JSON.stringify({ type: "settled", outcome }));
  }

  #tell(message: string): void {
    for (const watcher of this.#watchers) watcher(message);
  }
}

async function decidedByPage({ answers }: OpenRequest): Promise<boolean> {
  for (const counted of answers) {
    if (await counted.catch(() => false)) return true; // whoever decided was told of the error
  }
  return false;
}

async function answer(request: ApprovalRequest, decision: PageDecision): Promise<boolean> {
  const { remember } = decision;
  switch (decision.decision) {
    case "allow":
      return await request.accept({ arguments: decision.arguments, remember });
    case "deny":
      return await request.reject(decision.reason || undefined, { remember });
  }
}

/** Whether somebody looks at a page: one is open, one may come any moment, or neither. */
export type PageState = "open" | "expected" | "away";

/** Counts the open pages, and knows of those that may come. */
class Presence implements Disposable {
  readonly #expectations = new Map<object, ReturnType<typeof setTimeout>>();
  readonly #watchers = new Set<(state: PageState) => void>();
  #open = 0;
  #told: PageState = "away";

  /** What holds now. */
  get state(): PageState {
    if (this.#open > 0) return "open";
    return this.#expectations.size > 0 ? "expected" : "away";
  }

  /** Calls back whenever the state has changed, until disposed. */
  onChange(callback: (state: PageState) => void): Disposable {
    this.#watchers.add(callback);
    return { [Symbol.dispose]: () => void this.#watchers.delete(callback) };
  }

  /** A page may come. */
  expect(timeoutMs: number): Disposable {
    const key = {};
    const forget = () => {
      clearTimeout(this.#expectations.get(key));
      if (this.#expectations.delete(key)) this.#tell();
    };
    const timer = setTimeout(forget, timeoutMs);
    Deno.unrefTimer(timer); // nobody waits for a page alone
    this.#expectations.set(key, timer);
    this.#tell();
    return { [Symbol.dispose]: forget };
  }

  /** A page has come. */
  enter(graceMs: number): Disposable {
    let here = true;
    this.#open++;
    this.#tell();
    return {
      [Symbol.dispose]: () => {
        if (!here) return;
        here = false;
        this.#open--;
        this.expect(graceMs);
      },
    };
  }

  /** Expects nobody any more. */
  [Symbol.dispose](): void {
    for (const timer of this.#expectations.values()) clearTimeout(timer);
    this.#expectations.clear();
    this.#tell();
  }

  #tell(): void {
    const { state } = this;
    if (state === this.#told) return;
    this.#told = state;
    for (const watcher of this.#watchers) watcher(state);
  }
}
