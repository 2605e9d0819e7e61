import { RateLimit } from "../base/rate_limit.ts";
import { LONGEST_TIMER_MS } from "../base/signals.ts";
import { type Logger, silentLogger } from "../base/log.ts";
import {
  type ElicitationAnswer,
  type ElicitationQuestion,
  ElicitationRequest,
  type ElicitationSource,
} from "../mcp/questions.ts";

/** Takes each question as it comes, and answers it now or later. */
export type Answerer = (request: ElicitationRequest) => void | Promise<void>;

/** Options of {@linkcode ElicitationChannel}. */
export interface ElicitationChannelOptions {
  /**
   * How long an answer is waited for, in milliseconds.
   *
   * @default {undefined} for ever
   */
  timeoutMs?: number;
  /** Told of questions that are declined without asking. */
  log?: Logger;
}

/** How many questions of one server are shown: more would bury a person. */
const QUESTIONS_AT_ONCE = 10;
const QUESTIONS_PER_SECOND = 0.2;

/**
 * Brings the questions of MCP servers to whoever answers them in this process. Where nobody does, or
 * a server asks too often, they are declined.
 */
export class ElicitationChannel {
  readonly #timeoutMs: number | undefined;
  readonly #log: Logger;
  readonly #open = new Set<ElicitationRequest>();
  readonly #limits = new Map<string, RateLimit>();
  readonly #watchers = new Set<(pending: number) => void>();
  #answerer: Answerer | undefined;

  /**
   * Makes a channel on which nobody answers yet.
   *
   * @param options The time limit and the log.
   */
  constructor(options: ElicitationChannelOptions = {}) {
    this.#timeoutMs = options.timeoutMs;
    this.#log = options.log ?? silentLogger;
  }

  /** Whether somebody answers. */
  get attached(): boolean {
    return this.#answerer !== undefined;
  }

  /** How many questions are open. */
  get pending(): number {
    return this.#open.size;
  }

  /**
   * Makes `answerer` the one who is asked, until the returned object is disposed. What is open then
   * is cancelled.
   *
   * @param answerer Called with each question.
   * @returns Disposing it detaches the answerer.
   * @throws {Error} Somebody else is attached.
   */
  attach(answerer: Answerer): Disposable {
    if (this.#answerer !== undefined) {
      throw new Error("Cannot attach an answerer: the elicitation channel already has one");
    }
    this.#answerer = answerer;
    return {
      [Symbol.dispose]: () => {
        if (this.#answerer !== answerer) return;
        this.#answerer = undefined;
        this.withdrawAll("Nobody answers any more");
      },
    };
  }

  /** Calls back with the number of open questions whenever it changes, until disposed. */
  onPendingChange(callback: (pending: number) => void): Disposable {
    this.#watchers.add(callback);
    return { [Symbol.dispose]: () => void this.#watchers.delete(callback) };
  }

  /**
   * Asks.
   *
   * @param source Which server asks.
   * @param question What it asks.
   * @param signal Takes the question back.
   * @returns The answer. Never rejects.
   */
  async ask(
    source: ElicitationSource,
    question: ElicitationQuestion,
    signal: AbortSignal,
  ): Promise<ElicitationAnswer> {
    const answerer = this.#answerer;
    if (answerer === undefined) return this.#declined(source, "nobody answers questions here");
    if (signal.aborted) return { action: "cancel" };
    if (!this.#limit(source.serverName).take()) return this.#declined(source, "it asks too often");

    const request = new ElicitationRequest(source, question);
    const withdraw = () => request.withdraw("The call was cancelled");
    signal.addEventListener("abort", withdraw, { once: true });
    const timer = this.#expireLater(request);
    this.#change(() => this.#open.add(request));
    this.#show(request, answerer);
    try {
      return await request.response;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", withdraw);
      this.#change(() => this.#open.delete(request));
    }
  }

  /**
   * Takes back all that is open.
   *
   * @param reason Why.
   */
  withdrawAll(reason: string): void {
    for (const request of this.#open) request.withdraw(reason);
  }

  #declined({ serverName }: ElicitationSource, reason: string): ElicitationAnswer {
    this.#log.debug(`Declined a question of MCP server "${serverName}": ${reason}`);
    return { action: "decline" };
  }

  #expireLater(request: ElicitationRequest): ReturnType<typeof setTimeout> | undefined {
    const timeoutMs = this.#timeoutMs;
    if (timeoutMs === undefined || timeoutMs > LONGEST_TIMER_MS) return undefined;
    return setTimeout(() => request.withdraw("Nobody answered in time"), timeoutMs);
  }

  async #show(request: ElicitationRequest, answerer: Answerer): Promise<void> {
    try {
      await answerer(request);
    } catch (error) {
      this.#log.error(`Answerer failed on a question of ${request.serverName}: ${error}`);
      request.withdraw("The answerer failed");
    }
  }

  #limit(serverName: string): RateLimit {
    return this.#limits.getOrInsertComputed(
      serverName,
      () => new RateLimit(QUESTIONS_PER_SECOND, QUESTIONS_AT_ONCE),
    );
  }

  #change(apply: () => void): void {
    apply();
    for (const watcher of this.#watchers) watcher(this.#open.size);
  }
}
