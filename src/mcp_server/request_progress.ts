import type { Logger } from "../log.ts";
import type { ServerContext } from "./sdk.ts";

/** How often a change is told at most: a person cannot read faster. */
const INTERVAL_MS = 250;
/** How often something is told at least: clients give up a request that they hear nothing of. */
const HEARTBEAT_MS = 5000;
const MAX_MESSAGE = 200;

/** Work that a client waits for. */
export interface Work {
  /** What it does at the moment, in one line. */
  readonly activity: string;
}

/** Who tells of a work at the moment. */
const tellers = new WeakMap<Work, RequestProgress>();

/** Tells a client what it waits for, where it asked for that, and that this is still alive. */
export class RequestProgress implements Disposable {
  readonly #work: Work;
  readonly #ctx: ServerContext;
  readonly #log: Logger;
  readonly #startedAt = performance.now();
  #timer: ReturnType<typeof setInterval> | undefined;
  #told = "";
  #toldAt = performance.now();
  #count = 0;

  private constructor(work: Work, ctx: ServerContext, log: Logger) {
    this.#work = work;
    this.#ctx = ctx;
    this.#log = log;
    tellers.set(work, this);
    if (ctx.mcpReq._meta?.progressToken === undefined) return;
    this.#timer = setInterval(() => this.#look(), INTERVAL_MS);
    ctx.mcpReq.signal.addEventListener("abort", () => this[Symbol.dispose](), { once: true });
  }

  /**
   * Tells of a work from now on.
   *
   * In the older era a request stays open while its client asks its user, so who told of a cell
   * before goes on: its numbers must increase.
   *
   * @param work The work, such as a cell.
   * @param ctx The request that waits for it.
   * @param log Told when the client cannot be reached.
   * @returns Disposing it ends that.
   */
  static of(work: Work, ctx: ServerContext, log: Logger): RequestProgress {
    const before = tellers.get(work);
    if (before !== undefined && before.#ctx.mcpReq.id === ctx.mcpReq.id) return before;
    before?.[Symbol.dispose]();
    return new RequestProgress(work, ctx, log);
  }

  /** Stops telling: nothing may follow a request's answer. */
  [Symbol.dispose](): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #look(): void {
    const message = this.#work.activity.slice(0, MAX_MESSAGE).toWellFormed();
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
      this.#log.debug(`Cannot tell the client of progress: ${error}`);
      this[Symbol.dispose]();
    });
  }
}
