import { type Logger, silentLogger } from "../base/log.ts";
import { abortable, LONGEST_TIMER_MS } from "../base/signals.ts";
import type { Refusal } from "./request.ts";

/** Something that a person is asked. The first answer counts; later ones change nothing. */
export abstract class Question<Answer> {
  /** A random id, used once. */
  abstract readonly id: string;
  /** Settles, and never rejects, once it is answered, expired or withdrawn. */
  readonly response: Promise<Answer>;

  readonly #answered = Promise.withResolvers<Answer>();
  readonly #withdrawn = new AbortController();
  #settled = false;

  /** Created by ipybox; not for direct construction. */
  constructor() {
    this.response = this.#answered.promise;
  }

  /** Aborts when the question is taken back: it expired, or its call ended in another way. */
  get signal(): AbortSignal {
    return this.#withdrawn.signal;
  }

  /**
   * Takes the question back. Only the code that asked does this; the person rejects or cancels.
   *
   * @param refusal Why, and what becomes of the call.
   */
  abstract withdraw(refusal: Refusal): void;

  /**
   * Takes an answer.
   *
   * @param answer The answer.
   * @returns Whether it counted.
   */
  protected settle(answer: Answer): boolean {
    if (this.#settled) return false;
    this.#settled = true;
    this.#answered.resolve(answer);
    return true;
  }

  /**
   * Ends the question without an answer from the person.
   *
   * @param answer What counts as the answer.
   * @param reason Why.
   * @returns Whether it was still open.
   */
  protected takeBack(answer: Answer, reason: string): boolean {
    if (!this.settle(answer)) return false;
    this.#withdrawn.abort(new DOMException(reason, "AbortError"));
    return true;
  }
}

/** Options of an {@linkcode ApprovalChannel} and an {@linkcode ElicitationChannel}. */
export interface DeskOptions {
  /**
   * How long an answer is waited for, in milliseconds.
   *
   * @default {undefined} forever
   */
  timeoutMs?: number;
  /** Receives the failures of handlers. */
  log?: Logger;
}

/** Options of {@linkcode Desk.attach}. */
export interface AttachOptions {
  /**
   * Whether the approver stands for a person in another process, who may also decide on changes such
   * as registrations. The program that runs code may not: it may accept all that its code does.
   *
   * @default {false}
   */
  attended?: boolean;
}

type Taker<Asked> = (question: Asked) => void | Promise<void>;

/**
 * Passes questions to the attached person or, if nobody is attached, to a deputy. Others may watch, and
 * answer too: the first answer counts.
 *
 * It fails closed: without anybody to ask, when the time is up, when the one who was asked leaves or
 * throws, the question is withdrawn with the reason.
 */
export class Desk<Asked extends Question<Answer>, Answer> {
  readonly #timeoutMs: number | undefined;
  /** Receives the failures of handlers. */
  protected readonly log: Logger;
  /** What is unanswered, the oldest first, and who was asked. */
  readonly #pending = new Map<Asked, Taker<Asked>>();
  readonly #counters = new Set<(pending: number) => void>();
  readonly #watchers = new Set<(question: Asked) => void>();
  #attached: Taker<Asked> | undefined;
  #attended = false;
  #deputy: Taker<Asked> | undefined;
  #free = Promise.withResolvers<void>();

  /**
   * Makes a desk at which nobody is attached.
   *
   * @param options The time limit and the log.
   * @throws {RangeError} The time limit is not positive.
   */
  constructor(options: DeskOptions = {}) {
    const { timeoutMs, log = silentLogger } = options;
    if (timeoutMs !== undefined && !(timeoutMs > 0)) {
      throw new RangeError(`Cannot use an approval timeout of ${timeoutMs} ms: it must be above 0`);
    }
    this.#timeoutMs = timeoutMs;
    this.log = log;
  }

  /** Whether somebody is attached. */
  get attached(): boolean {
    return this.#attached !== undefined;
  }

  /** Whether the attached handler represents a person in another process. */
  get attended(): boolean {
    return this.#attended;
  }

  /** Whether there is anybody to ask: an attached handler or a deputy. */
  get staffed(): boolean {
    return (this.#attached ?? this.#deputy) !== undefined;
  }

  /** How many questions wait for an answer. */
  get pending(): number {
    return this.#pending.size;
  }

  /** What waits for an answer, the oldest first. */
  protected get waiting(): Iterable<Asked> {
    return this.#pending.keys();
  }

  /** Calls back with the number of waiting questions whenever it changes, until disposed. */
  onPendingChange(callback: (pending: number) => void): Disposable {
    this.#counters.add(callback);
    return { [Symbol.dispose]: () => void this.#counters.delete(callback) };
  }

  /**
   * Shows each question, including those that already wait, until the returned object is disposed. A
   * watcher may answer as well as the one who is asked, but no call waits for it.
   *
   * @param watcher Called with each question.
   * @returns Disposing it ends the watch. Questions stay as they are.
   */
  watch(watcher: (question: Asked) => void): Disposable {
    this.#watchers.add(watcher);
    for (const question of this.#pending.keys()) this.#tell(watcher, question);
    return { [Symbol.dispose]: () => void this.#watchers.delete(watcher) };
  }

  /**
   * Attaches `taker` until the returned object is disposed. What is unanswered then
   * is withdrawn.
   *
   * @param taker Called with each question.
   * @param options Whether it represents a person in another process.
   * @returns Disposing it detaches the taker.
   * @throws {Error} Somebody is attached; see {@linkcode whenFree}.
   */
  attach(
    taker: (question: Asked) => void | Promise<void>,
    options: AttachOptions = {},
  ): Disposable {
    if (this.#attached !== undefined) {
      throw new Error("Cannot attach an approver: the approval channel already has one");
    }
    this.#attached = taker;
    this.#attended = options.attended ?? false;
    this.#free = Promise.withResolvers<void>();
    return {
      [Symbol.dispose]: () => {
        if (this.#attached !== taker) return;
        this.#attached = undefined;
        this.#attended = false;
        this.#leave(taker, "Approval channel disconnected");
        this.#free.resolve();
      },
    };
  }

  /**
   * Asks `deputy` while nobody is attached, until the returned object is
   * disposed. What it was asked and is unanswered then is withdrawn.
   *
   * @param deputy Called with each question that nobody attached takes.
   * @param farewell Why its questions are withdrawn at its end, in words for the code that called.
   * @returns Disposing it detaches the deputy.
   * @throws {Error} There is another deputy.
   */
  attachDeputy(
    deputy: (question: Asked) => void | Promise<void>,
    farewell: () => string,
  ): Disposable {
    if (this.#deputy !== undefined) {
      throw new Error("Cannot attach a deputy: the approval channel already has one");
    }
    this.#deputy = deputy;
    return {
      [Symbol.dispose]: () => {
        if (this.#deputy !== deputy) return;
        this.#deputy = undefined;
        this.#leave(deputy, farewell());
      },
    };
  }

  /**
   * Waits until nobody is attached.
   *
   * @param signal Ends the wait.
   */
  async whenFree(signal: AbortSignal): Promise<void> {
    while (this.attached) await abortable(this.#free.promise, signal);
  }

  /**
   * Withdraws all that waits for an answer.
   *
   * @param reason Why, in words for the code that called.
   */
  withdrawAll(reason: string): void {
    for (const question of this.#pending.keys()) question.withdraw(unavailable(reason));
  }

  /**
   * Asks, and waits for what comes of it.
   *
   * @param question What is asked.
   * @param options What withdraws it, and who is asked instead of the attached one.
   * @returns The answer, or what the question is withdrawn with. Never rejects.
   */
  protected async wait(
    question: Asked,
    options: { signal?: AbortSignal; instead?: (question: Asked) => void | Promise<void> },
  ): Promise<Answer> {
    const { signal, instead } = options;
    const taker = instead ?? this.#attached ?? this.#deputy;
    const withdraw = () => question.withdraw(signal?.reason === DECIDED ? DECIDED : CANCELLED);
    if (signal?.aborted) withdraw();
    else if (taker === undefined) question.withdraw(unavailable("Approval channel not connected"));
    if (signal?.aborted || taker === undefined) return await question.response;

    signal?.addEventListener("abort", withdraw, { once: true });
    const timer = this.#expireLater(question);
    this.#change(() => this.#pending.set(question, taker));
    for (const watcher of this.#watchers) this.#tell(watcher, question);
    this.#show(question, taker);
    try {
      return await question.response;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", withdraw);
      this.#change(() => this.#pending.delete(question));
    }
  }

  #leave(asked: Taker<Asked>, reason: string): void {
    for (const [question, taker] of this.#pending) {
      if (taker === asked) question.withdraw(unavailable(reason));
    }
  }

  #expireLater(question: Asked): ReturnType<typeof setTimeout> | undefined {
    const timeoutMs = this.#timeoutMs;
    if (timeoutMs === undefined || timeoutMs > LONGEST_TIMER_MS) return undefined;
    const reason = `No decision within ${timeoutMs / 1000} s`;
    return setTimeout(() => {
      question.withdraw({ accepted: false, type: "approval_timeout", reason });
    }, timeoutMs);
  }

  async #show(question: Asked, taker: Taker<Asked>): Promise<void> {
    try {
      await taker(question);
    } catch (error) {
      this.log.error(`Approver failed on ${question}: ${error}`);
      question.withdraw(unavailable("Approver failed"));
    }
  }

  #tell(watcher: (question: Asked) => void, question: Asked): void {
    try {
      watcher(question);
    } catch (error) {
      this.log.error(`A watcher of the approval channel failed on ${question}: ${error}`);
    }
  }

  #change(apply: () => void): void {
    apply();
    for (const counter of this.#counters) counter(this.#pending.size);
  }
}

const CANCELLED: Refusal = { accepted: false, type: "cancelled", reason: "The call was cancelled" };

/** What becomes of a question that is not needed any more: its signal aborts with this as the reason. */
export const DECIDED: Refusal = {
  accepted: false,
  type: "cancelled",
  reason: "An answer to another request also decided this one",
};

function unavailable(reason: string): Refusal {
  return { accepted: false, type: "approval_unavailable", reason };
}
