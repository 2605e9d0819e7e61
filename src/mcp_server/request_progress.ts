import { visible } from "../approval/call_text.ts";
import type { Logger } from "../base/log.ts";
import type { ServerContext } from "./sdk.ts";
import type { Session, SessionParts } from "./session.ts";

/** How often a change is reported at most: a person cannot read faster. */
const INTERVAL_MS = 250;
/** How often progress is reported at least: clients abandon a request without progress. */
const HEARTBEAT_MS = 5000;
const MAX_MESSAGE = 200;

/** Work that a client waits for. */
export interface Work {
  /** What it does at the moment, in one line. */
  readonly activity: string;
}

/** What a work does at the moment, without hidden characters. */
export function shownActivity({ activity }: Work): string {
  return visible(activity.slice(0, MAX_MESSAGE)).slice(0, MAX_MESSAGE).toWellFormed();
}

/** What a tool does that needs the session's kernel, which has to start first. */
export class Preparation implements Work {
  readonly #session: Pick<Session, "starting" | "parts">;
  #activity: string;
  #awaitsKernel = false;

  constructor(session: Pick<Session, "starting" | "parts">, activity = "Starting") {
    this.#session = session;
    this.#activity = activity;
  }

  /** What is done at the moment. */
  get activity(): string {
    return (this.#awaitsKernel ? this.#session.starting : undefined) ?? this.#activity;
  }

  set activity(activity: string) {
    this.#activity = activity;
  }

  /** The session's kernel; until it is there, its start is reported. */
  async kernel(): Promise<SessionParts> {
    this.#awaitsKernel = true;
    try {
      return await this.#session.parts;
    } finally {
      this.#awaitsKernel = false;
    }
  }
}

/** How long a request stays open at most while its client asks its user. */
const MAX_QUESTION_MS = 10 * 60_000;

/** Who tells the client of a request, which its signal identifies. */
const tellers = new WeakMap<AbortSignal, RequestProgress>();

/**
 * Tells a client what it waits for, where it asked for that, and that this is still alive. It begins
 * before anything is awaited.
 */
export class RequestProgress implements Disposable {
  #work: Work;
  readonly #ctx: ServerContext;
  readonly #log: Logger;
  #startedAt = performance.now();
  #timer: ReturnType<typeof setInterval> | undefined;
  #expiry: ReturnType<typeof setTimeout> | undefined;
  #isKept = false;
  #told = "";
  #toldAt = performance.now();
  #count = 0;

  private constructor(work: Work, ctx: ServerContext, log: Logger) {
    this.#work = work;
    this.#ctx = ctx;
    this.#log = log;
    tellers.set(ctx.mcpReq.signal, this);
    if (ctx.mcpReq._meta?.progressToken === undefined) return;
    this.#timer = setInterval(() => this.#look(), INTERVAL_MS);
    ctx.mcpReq.signal.addEventListener("abort", () => this.#stop(), { once: true });
  }

  /**
   * Reports a work from now on.
   *
   * In the older era a request stays open while its client asks its user, so who told of it before
   * continues: its numbers must increase.
   */
  static of(work: Work, ctx: ServerContext, log: Logger): RequestProgress {
    const before = tellers.get(ctx.mcpReq.signal);
    if (before === undefined) return new RequestProgress(work, ctx, log);
    clearTimeout(before.#expiry);
    before.#work = work;
    return before;
  }

  /** Reports another work from now on. */
  follow(work: Work): void {
    this.#work = work;
    this.#startedAt = performance.now();
  }

  /**
   * Goes on, disposed of or not, while the client asks its user: in the older era the request stays
   * open, and comes back.
   */
  keep(): void {
    if (this.#ctx.mcpReq.envelope !== undefined) return;
    this.#isKept = true;
    this.#expiry = setTimeout(() => this.#stop(), MAX_QUESTION_MS);
  }

  /** Stops telling: nothing may follow a request's answer. */
  [Symbol.dispose](): void {
    if (this.#isKept) this.#isKept = false;
    else this.#stop();
  }

  #stop(): void {
    clearInterval(this.#timer);
    clearTimeout(this.#expiry);
    this.#timer = undefined;
    tellers.delete(this.#ctx.mcpReq.signal);
  }

  #look(): void {
    const message = shownActivity(this.#work);
    const now = performance.now();
    if (message === this.#told && now - this.#toldAt < HEARTBEAT_MS) return;
    this.#told = message;
    this.#toldAt = now;
    const seconds = Math.round((now - this.#startedAt) / 1000);
    this.#ctx.mcpReq.notify({
      method: "notifications/progress",
      params: {
        progressToken: this.#ctx.mcpReq._meta?.progressToken,
        progress: ++this.#count,
        message: seconds < 5 ? message : `${message} (${seconds} s)`,
      },
    }).catch((error: unknown) => {
      this.#log.debug(`Cannot report progress to the client: ${error}`);
      this.#stop();
    });
  }
}
