import { type Logger, silentLogger } from "../base/log.ts";
import { Deadline, WaitCount } from "../base/deadline.ts";
import { abortable, onAbort } from "../base/signals.ts";

/** Why a call was refused: a decision, the time limit, a missing approver, or the end of the call. */
export type RefusalType =
  | "approval_rejected"
  | "approval_timeout"
  | "approval_unavailable"
  | "cancelled";

/** The refusal of a call and its reason. */
export interface Refusal {
  /** A refusal accepts nothing. */
  readonly accepted: false;
  /** The kind of refusal. */
  readonly type: RefusalType;
  /** The reason, in words for the calling code. */
  readonly reason: string;
}

/** A question to a person. The first answer counts; later ones change nothing. */
export abstract class Question<Answer> {
  /** A unique random id. */
  abstract readonly id: string;
  /** Settles, never rejects, once the question is answered, expired or withdrawn. */
  readonly response: Promise<Answer>;

  readonly #answered = Promise.withResolvers<Answer>();
  readonly #withdrawn = new AbortController();
  /** Aborts when the question is withdrawn: it expired, or its call ended in another way. */
  readonly signal: AbortSignal = this.#withdrawn.signal;
  #settled = false;

  /** Created by ipybox; not for direct construction. */
  constructor() {
    this.response = this.#answered.promise;
  }

  /**
   * Withdraws the question. Only the code that asked calls this; the person rejects or cancels.
   *
   * @param refusal The reason, and the error of the call.
   */
  abstract withdraw(refusal: Refusal): void;

  /**
   * Settles the question with an answer.
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
   * @param reason The reason.
   * @returns Whether the question was still open.
   */
  protected takeBack(answer: Answer, reason: string): boolean {
    if (!this.settle(answer)) return false;
    this.#withdrawn.abort(new DOMException(reason, "AbortError"));
    return true;
  }
}

/** Options of an {@linkcode ApprovalChannel} and an {@linkcode ElicitationChannel}. */
export interface QuestionQueueOptions {
  /**
   * How long to wait for an answer, in milliseconds.
   *
   * @default {undefined} forever
   */
  timeoutMs?: number;
  /** Receives failures of handlers. */
  log?: Logger;
}

/** Options of {@linkcode QuestionQueue.attach}. */
export interface AttachOptions {
  /**
   * Whether the approver represents a person in another process, who may also decide on changes
   * such as registrations. A program that runs code must not: it may accept everything that its
   * code does.
   *
   * @default {false}
   */
  attended?: boolean;
}

type Handler<Asked> = (question: Asked) => void | Promise<void>;

/**
 * Passes questions to the attached person or, if nobody is attached, to a fallback. Watchers can
 * answer, too: the first answer counts.
 *
 * It fails closed: if there is nobody to ask, the time limit is reached, or the person's handler is
 * detached or throws, the question is withdrawn with the reason.
 */
export class QuestionQueue<Asked extends Question<Answer>, Answer> {
  readonly #timeoutMs: number;
  /** Receives failures of handlers. */
  protected readonly log: Logger;
  /** The unanswered questions, oldest first, and their handlers. */
  readonly #pending = new Map<Asked, Handler<Asked>>();
  readonly #count = new WaitCount();
  readonly #watchers = new Set<(question: Asked) => void>();
  #attached: Handler<Asked> | undefined;
  #attended = false;
  #fallback: Handler<Asked> | undefined;
  #free = Promise.withResolvers<void>();

  /**
   * Creates a queue to which nobody is attached.
   *
   * @param options The time limit and the log.
   * @throws {RangeError} The time limit is not positive.
   */
  constructor(options: QuestionQueueOptions = {}) {
    const { timeoutMs = Infinity, log = silentLogger } = options;
    if (!(timeoutMs > 0)) {
      throw new RangeError(`Cannot use an approval timeout of ${timeoutMs} ms: it must be above 0`);
    }
    this.#timeoutMs = timeoutMs;
    this.log = log;
  }

  /** Whether a handler is attached. */
  get attached(): boolean {
    return this.#attached !== undefined;
  }

  /** Whether the attached handler represents a person in another process. */
  get attended(): boolean {
    return this.#attended;
  }

  /** Whether there is anyone to ask: an attached handler or a fallback. */
  get hasHandler(): boolean {
    return (this.#attached ?? this.#fallback) !== undefined;
  }

  /** The number of unanswered questions. */
  get pending(): number {
    return this.#count.pending;
  }

  /** The unanswered questions, oldest first. */
  protected get waiting(): Iterable<Asked> {
    return this.#pending.keys();
  }

  /** Calls back with the number of unanswered questions whenever it changes, until disposed. */
  onPendingChange(callback: (pending: number) => void): Disposable {
    return this.#count.onPendingChange(callback);
  }

  /**
   * Shows each question, including unanswered ones, until the returned object is disposed. A
   * watcher can answer like the person who is asked, but no call waits for it.
   *
   * @param watcher Called with each question.
   * @returns Disposing it ends the watch. Questions stay open.
   */
  watch(watcher: (question: Asked) => void): Disposable {
    this.#watchers.add(watcher);
    for (const question of this.#pending.keys()) this.#notify(watcher, question);
    return { [Symbol.dispose]: () => void this.#watchers.delete(watcher) };
  }

  /**
   * Attaches `handler` until the returned object is disposed. Its unanswered questions are withdrawn
   * then.
   *
   * @param handler Called with each question.
   * @param options Whether it represents a person in another process.
   * @returns Disposing it detaches the handler.
   * @throws {Error} Another handler is attached; see {@linkcode whenFree}.
   */
  attach(
    handler: (question: Asked) => void | Promise<void>,
    options: AttachOptions = {},
  ): Disposable {
    if (this.#attached !== undefined) {
      throw new Error("Cannot attach an approver: the approval channel already has one");
    }
    this.#attached = handler;
    this.#attended = options.attended ?? false;
    this.#free = Promise.withResolvers<void>();
    return {
      [Symbol.dispose]: () => {
        if (this.#attached !== handler) return;
        this.#attached = undefined;
        this.#attended = false;
        this.#withdrawFrom(handler, "Approval channel disconnected");
        this.#free.resolve();
      },
    };
  }

  /**
   * Asks `fallback` while nobody is attached, until the returned object is disposed. Its unanswered
   * questions are withdrawn then.
   *
   * @param fallback Called with each question while nobody is attached.
   * @param farewell Returns why its questions are withdrawn then, in words for the calling code.
   * @returns Disposing it detaches the fallback.
   * @throws {Error} Another fallback is set.
   */
  setFallback(
    fallback: (question: Asked) => void | Promise<void>,
    farewell: () => string,
  ): Disposable {
    if (this.#fallback !== undefined) {
      throw new Error("Cannot set a fallback: the approval channel already has one");
    }
    this.#fallback = fallback;
    return {
      [Symbol.dispose]: () => {
        if (this.#fallback !== fallback) return;
        this.#fallback = undefined;
        this.#withdrawFrom(fallback, farewell());
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
   * Withdraws all unanswered questions.
   *
   * @param reason The reason, in words for the calling code.
   */
  withdrawAll(reason: string): void {
    for (const question of this.#pending.keys()) question.withdraw(unavailable(reason));
  }

  /**
   * Asks a question and waits for its outcome.
   *
   * @param question The question.
   * @param options What withdraws it, and who is asked instead of the attached handler.
   * @returns The answer, or the reason for the withdrawal. Never rejects.
   */
  protected async wait(
    question: Asked,
    options: { signal?: AbortSignal; instead?: (question: Asked) => void | Promise<void> },
  ): Promise<Answer> {
    const { signal, instead } = options;
    const handler = instead ?? this.#attached ?? this.#fallback;
    const withdraw = () => question.withdraw(signal?.reason === DECIDED ? DECIDED : CANCELLED);
    if (signal?.aborted) withdraw();
    else if (handler === undefined) {
      question.withdraw(unavailable("Approval channel not connected"));
    }
    if (signal?.aborted || handler === undefined) return await question.response;

    using _end = onAbort(signal, withdraw);
    using _deadline = new Deadline(this.#timeoutMs, {
      onPassed: () => {
        const reason = `No decision within ${this.#timeoutMs / 1000} s`;
        question.withdraw({ accepted: false, type: "approval_timeout", reason });
      },
    });
    this.#pending.set(question, handler);
    this.#count.count(1);
    for (const watcher of this.#watchers) this.#notify(watcher, question);
    this.#show(question, handler);
    try {
      return await question.response;
    } finally {
      this.#pending.delete(question);
      this.#count.count(-1);
    }
  }

  #withdrawFrom(asked: Handler<Asked>, reason: string): void {
    for (const [question, handler] of this.#pending) {
      if (handler === asked) question.withdraw(unavailable(reason));
    }
  }

  async #show(question: Asked, handler: Handler<Asked>): Promise<void> {
    try {
      await handler(question);
    } catch (error) {
      this.log.error(`Approver failed on ${question}: ${error}`);
      question.withdraw(unavailable("Approver failed"));
    }
  }

  #notify(watcher: (question: Asked) => void, question: Asked): void {
    try {
      watcher(question);
    } catch (error) {
      this.log.error(`A watcher of the approval channel failed on ${question}: ${error}`);
    }
  }
}

const CANCELLED: Refusal = { accepted: false, type: "cancelled", reason: "The call was cancelled" };

/** The refusal for questions that are no longer needed: their signal aborts with this as the reason. */
export const DECIDED: Refusal = {
  accepted: false,
  type: "cancelled",
  reason: "An answer to another request also decided this one",
};

function unavailable(reason: string): Refusal {
  return { accepted: false, type: "approval_unavailable", reason };
}
