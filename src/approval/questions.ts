import { RateLimit } from "../base/rate_limit.ts";
import { LONGEST_TIMER_MS } from "../base/signals.ts";
import { type Logger, silentLogger } from "../base/log.ts";
import {
  checkForm,
  type ElicitationAnswer,
  type ElicitationQuestion,
  type FormValue,
} from "../mcp/questions.ts";

/** Where a question comes from. */
export interface ElicitationSource {
  /** The registered server. */
  readonly serverName: string;
  /** The tool call that was under way, where there was just one at that server. */
  readonly callId?: string;
}

/**
 * A question of an MCP server to the person at the application. The code that called the tool cannot
 * answer it. The first answer counts; later ones change nothing.
 *
 * @example
 * ```ts
 * import type { ElicitationRequest } from "@ipybox/ipybox";
 *
 * function answer(request: ElicitationRequest): void {
 *   console.error(`${request}`); // github asks: 'Which repository?'
 *   const { question } = request;
 *   if (question.kind === "form" && question.fields.length === 1) {
 *     request.accept({ [question.fields[0]!.name]: "ipybox" });
 *   } else request.decline();
 * }
 * ```
 */
export class ElicitationRequest {
  /** A random id, used once. */
  readonly id: string = crypto.randomUUID();
  /** The registered server that asks. */
  readonly serverName: string;
  /** The tool call that was under way, where there was just one at that server. */
  readonly callId: string | undefined;
  /** What it asks. All texts in it are the server's, which nobody has checked. */
  readonly question: ElicitationQuestion;
  /** Settles, and never rejects, once it is answered or withdrawn. */
  readonly response: Promise<ElicitationAnswer>;

  readonly #answered = Promise.withResolvers<ElicitationAnswer>();
  readonly #withdrawn = new AbortController();
  #decided = false;

  /**
   * Made by ipybox, not by hand.
   *
   * @param source Who asks.
   * @param question What is asked.
   */
  constructor(source: ElicitationSource, question: ElicitationQuestion) {
    this.serverName = source.serverName;
    this.callId = source.callId;
    this.question = question;
    this.response = this.#answered.promise;
  }

  /** Aborts when the question is taken back: its call ended, or nobody answered in time. */
  get signal(): AbortSignal {
    return this.#withdrawn.signal;
  }

  /**
   * Answers a form, or says that the person agreed to open the address.
   *
   * @param content The answer to a form, by the names of its fields.
   * @returns Whether this answer counted: `false` after another one, or when it came too late.
   * @throws {TypeError} The content does not fit the form; the question stays open.
   */
  accept(content: Readonly<Record<string, FormValue>> = {}): boolean {
    if (this.question.kind === "url") {
      if (Object.keys(content).length > 0) throw new TypeError("An address takes no content");
      return this.#answer({ action: "accept" });
    }
    const problems = checkForm(this.question.fields, content);
    if (problems.length > 0) {
      throw new TypeError(`Invalid answer to ${this.serverName}: ${problems.join("; ")}`);
    }
    return this.#answer({ action: "accept", content: structuredClone(content) });
  }

  /**
   * Says no.
   *
   * @returns Whether this answer counted.
   */
  decline(): boolean {
    return this.#answer({ action: "decline" });
  }

  /**
   * Says that the person did not decide, such as by closing the window.
   *
   * @returns Whether this answer counted.
   */
  cancel(): boolean {
    return this.#answer({ action: "cancel" });
  }

  /**
   * Takes the question back. For whoever passed it on: who is asked cancels instead.
   *
   * @param reason Why.
   */
  withdraw(reason: string): void {
    if (this.cancel()) this.#withdrawn.abort(new DOMException(reason, "AbortError"));
  }

  /** Who asks, and the question, safe to print on a terminal. */
  toString(): string {
    const { question } = this;
    const text = question.kind === "url" ? `${question.message} ${question.url}` : question.message;
    return `${this.serverName} asks: '${text.replace(UNPRINTABLE, " ").trim()}'`;
  }

  #answer(answer: ElicitationAnswer): boolean {
    if (this.#decided) return false;
    this.#decided = true;
    this.#answered.resolve(answer);
    return true;
  }
}

/** What is invisible, moves the cursor or turns the direction. */
const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]+/gu;

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
