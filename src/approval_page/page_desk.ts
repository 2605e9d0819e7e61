import type { ApprovalChannel, ApprovalWaitOptions } from "../approval/channel.ts";
import type { ApprovalCall, ApprovalResponse } from "../approval/request.ts";
import { type PageSession, PageSessions } from "./page_sessions.ts";
import { type PageState, Presence } from "./presence.ts";
import { RequestBoard } from "./request_board.ts";

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
