import { visibleLine } from "../base/terminal.ts";
import {
  checkForm,
  type ElicitationAnswer,
  type ElicitationQuestion,
  type FormValue,
} from "../mcp/questions.ts";
import { Question, QuestionQueue, type Refusal, type RefusalType } from "./question_queue.ts";
import type { ExactObject } from "../json/exact.ts";

/** Receives each question and answers it, immediately or later. */
export type Answerer = (request: ElicitationRequest) => void | Promise<void>;

/** The outcome of a question, and who decided it or why nobody did. */
export interface QuestionEnd {
  /** `"accept"` for an answer, whose content is not included. */
  readonly action: ElicitationAnswer["action"];
  /** Where it was answered, `"policy"`, or why nobody answered. */
  readonly by: "application" | "page" | "terminal" | "elicitation" | "policy" | RefusalType;
  /** Why, if nobody answered. */
  readonly reason?: string;
}

/** A question that has ended, for the audit log: without its answer. */
export interface EndedQuestion extends QuestionEnd {
  /** Whether a server or code asked. */
  readonly kind: "elicitation" | "input";
  /** The registered server; `"ipybox"` for code. */
  readonly serverName: string;
  /** `"elicitation/create"`, `"input"` or `"getpass"`. */
  readonly toolName: string;
  /** The question. */
  readonly arguments: ExactObject;
  /** The call during which a server asked. */
  readonly callId?: string;
  /** The SHA-256 of the code that asked. */
  readonly codeHash?: string;
  /** When it was asked. */
  readonly time: Date;
}

/** The source of a question. */
export interface ElicitationSource {
  /** The registered server. */
  readonly serverName: string;
  /** The current tool call, if there was exactly one on that server. */
  readonly callId?: string;
}

/** Options of {@linkcode ElicitationRequest} besides its question. */
export interface ElicitationRequestOptions {
  /** The request's id; random by default. */
  id?: string;
  /** Passes an answer on, for example to another process, and returns whether it could. */
  onAnswer?: (answer: ElicitationAnswer) => boolean;
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
export class ElicitationRequest extends Question<ElicitationAnswer> {
  /** A random id, used once. */
  override readonly id: string;
  /** The registered server that asks. */
  readonly serverName: string;
  /** The current tool call, if there was exactly one on that server. */
  readonly callId: string | undefined;
  /** The question. All its texts come from the server and are unchecked. */
  readonly question: ElicitationQuestion;

  readonly #onAnswer: (answer: ElicitationAnswer) => boolean;
  #end: QuestionEnd = { action: "cancel", by: "cancelled" };

  /**
   * Created by ipybox; not for direct construction.
   *
   * @param source The server, and its call.
   * @param question The question.
   * @param options Its id, and the recipient of the answer.
   */
  constructor(
    source: ElicitationSource,
    question: ElicitationQuestion,
    options: ElicitationRequestOptions = {},
  ) {
    super();
    this.id = options.id ?? crypto.randomUUID();
    this.serverName = source.serverName;
    this.callId = source.callId;
    this.question = question;
    this.#onAnswer = options.onAnswer ?? (() => true);
  }

  /**
   * Answers a form, or confirms that the person agreed to open the URL.
   *
   * @param content The values of a form, by field name.
   * @returns Whether this answer counted: `false` after another one, or if it came too late.
   * @throws {TypeError} The content does not fit the form; the question stays open.
   */
  accept(content: Readonly<Record<string, FormValue>> = {}): boolean {
    return this.answer({ action: "accept", content });
  }

  /**
   * Answers with a person's action in a client, on a page or in another process.
   *
   * @param answer The person's answer.
   * @param by Where, or why nobody could be asked; for the audit log.
   * @returns Whether this answer counted.
   * @throws {TypeError} The content does not fit the form; the question stays open.
   */
  answer(answer: ElicitationAnswer, by: QuestionEnd["by"] = "application"): boolean {
    if (answer.action !== "accept") return this.#answer({ action: answer.action }, by);
    const { content = {} } = answer;
    if (this.question.kind === "url") {
      if (Object.keys(content).length > 0) {
        throw new TypeError("An answer to a URL question has no content");
      }
      return this.#answer({ action: "accept" }, by);
    }
    const problems = checkForm(this.question.fields, content);
    if (problems.length > 0) {
      throw new TypeError(`Invalid answer to ${this.serverName}: ${problems.join("; ")}`);
    }
    return this.#answer({ action: "accept", content: structuredClone(content) }, by);
  }

  /** The outcome. Until the question is answered or withdrawn, it counts as cancelled. */
  get end(): QuestionEnd {
    return this.#end;
  }

  /**
   * Refuses to answer.
   *
   * @returns Whether this answer counted.
   */
  decline(): boolean {
    return this.answer({ action: "decline" });
  }

  /**
   * Reports that the person did not decide, for example by closing the window.
   *
   * @returns Whether this answer counted.
   */
  cancel(): boolean {
    return this.answer({ action: "cancel" });
  }

  /**
   * Withdraws the question: it counts as cancelled. Only the code that asked calls this; the person
   * cancels instead.
   *
   * @param refusal The reason.
   */
  override withdraw(refusal: Refusal): void {
    const { type: by, reason } = refusal;
    if (this.takeBack({ action: "cancel" }, reason)) this.#end = { action: "cancel", by, reason };
  }

  /** The server and its question, safe to print on a terminal. */
  override toString(): string {
    const { question } = this;
    const text = question.kind === "url" ? `${question.message} ${question.url}` : question.message;
    return `${this.serverName} asks: '${visibleLine(text)}'`;
  }

  #answer(answer: ElicitationAnswer, by: QuestionEnd["by"]): boolean {
    if (!this.settle(answer)) return false;
    this.#end = { action: answer.action, by };
    return this.#onAnswer(answer);
  }
}

/** The outcome of a question that nobody is asked. */
export function declined(
  by: QuestionEnd["by"],
  reason: string,
): Awaited<ReturnType<ElicitationChannel["ask"]>> {
  const answer = { action: "decline" } as const;
  return { answer, end: { ...answer, by, reason } };
}

/** The most open questions of one server: more would overwhelm a person. */
const MAX_OPEN = 10;

/**
 * Passes the questions of MCP servers to a person: through a handler in this process, a client in
 * another process, or the approval page. If nobody can be asked, or too many questions of a server
 * are open, questions are declined.
 */
export class ElicitationChannel extends QuestionQueue<ElicitationRequest, ElicitationAnswer> {
  /**
   * Asks a question.
   *
   * @param source The server that asks, and its call.
   * @param question The question.
   * @param signal Withdraws the question.
   * @returns The answer and the outcome. Never rejects.
   */
  async ask(
    source: ElicitationSource,
    question: ElicitationQuestion,
    signal: AbortSignal,
  ): Promise<{ readonly answer: ElicitationAnswer; readonly end: QuestionEnd }> {
    const reason = this.#refusalOf(source);
    if (reason !== undefined) return declined("approval_unavailable", reason);
    const request = new ElicitationRequest(source, question);
    return { answer: await this.wait(request, { signal }), end: request.end };
  }

  #refusalOf({ serverName }: ElicitationSource): string | undefined {
    if (!this.hasHandler) return "nobody can be asked";
    const open = [...this.waiting].filter((question) => question.serverName === serverName);
    return open.length >= MAX_OPEN ? "too many of its questions are unanswered" : undefined;
  }
}
