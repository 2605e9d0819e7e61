import { Deadline } from "../base/deadline.ts";
import type { Logger } from "../base/log.ts";
import { type CellParts, shownActivity, type Work } from "./cell_run.ts";
import type { ServerContext } from "./sdk.ts";
import type { Session } from "./session.ts";

/** The shortest interval between reports; a person cannot read faster. */
const INTERVAL_MS = 250;
/** The longest interval between reports; clients abandon requests without progress. */
const HEARTBEAT_MS = 5000;

/** The work of a tool that may have to wait for the session's kernel. */
export class Preparation implements Work {
  readonly #session: Pick<Session, "starting" | "parts">;
  #activity: string;
  #awaitsKernel = false;

  constructor(session: Pick<Session, "starting" | "parts">, activity = "Starting") {
    this.#session = session;
    this.#activity = activity;
  }

  get activity(): string {
    return (this.#awaitsKernel ? this.#session.starting : undefined) ?? this.#activity;
  }

  set activity(activity: string) {
    this.#activity = activity;
  }

  /** Waits for the session's kernel and reports its start meanwhile. */
  async kernel(): Promise<CellParts> {
    this.#awaitsKernel = true;
    try {
      return await this.#session.parts;
    } finally {
      this.#awaitsKernel = false;
    }
  }
}

/** How long a request may stay open while its client asks the user. */
const MAX_QUESTION_MS = 10 * 60_000;

/** The progress of requests, by their signals. */
const reporters = new WeakMap<AbortSignal, RequestProgress>();

/** Reports the progress of a request if its client wants that, starting before the first await. */
export class RequestProgress implements Disposable {
  #work: Work;
  readonly #ctx: ServerContext;
  readonly #log: Logger;
  #startedAt = performance.now();
  #timer: ReturnType<typeof setInterval> | undefined;
  #expiry: Deadline | undefined;
  #isKept = false;
  #lastMessage = "";
  #reportedAt = performance.now();
  #count = 0;

  private constructor(work: Work, ctx: ServerContext, log: Logger) {
    this.#work = work;
    this.#ctx = ctx;
    this.#log = log;
    reporters.set(ctx.mcpReq.signal, this);
    if (ctx.mcpReq._meta?.progressToken === undefined) return;
    this.#timer = setInterval(() => this.#look(), INTERVAL_MS);
    ctx.mcpReq.signal.addEventListener("abort", () => this.#stop(), { once: true });
  }

  /**
   * Starts reporting. Reports on an open request of the older era continue: their numbers must
   * increase.
   */
  static of(work: Work, ctx: ServerContext, log: Logger): RequestProgress {
    const before = reporters.get(ctx.mcpReq.signal);
    if (before === undefined) return new RequestProgress(work, ctx, log);
    before.#expiry?.[Symbol.dispose]();
    before.#work = work;
    return before;
  }

  /** Switches to other work. */
  follow(work: Work): void {
    this.#work = work;
    this.#startedAt = performance.now();
  }

  /** Continues after disposal while the older era's client asks: the request stays open. */
  keep(): void {
    if (this.#ctx.mcpReq.envelope !== undefined) return;
    this.#isKept = true;
    this.#expiry = new Deadline(MAX_QUESTION_MS, { onPassed: () => this.#stop() });
  }

  /** Stops reporting: nothing may follow a response. */
  [Symbol.dispose](): void {
    if (this.#isKept) this.#isKept = false;
    else this.#stop();
  }

  #stop(): void {
    clearInterval(this.#timer);
    this.#expiry?.[Symbol.dispose]();
    this.#timer = undefined;
    reporters.delete(this.#ctx.mcpReq.signal);
  }

  #look(): void {
    const message = shownActivity(this.#work);
    const now = performance.now();
    if (message === this.#lastMessage && now - this.#reportedAt < HEARTBEAT_MS) return;
    this.#lastMessage = message;
    this.#reportedAt = now;
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
