import { checkForm, type FormField, type FormValue, parseForm } from "./form.ts";

/** How a person answered a server's question. */
export type ElicitationAnswer =
  | {
    /** The form was filled in, or the address was opened. */
    readonly action: "accept";
    /** What was filled in. */
    readonly content?: Readonly<Record<string, FormValue>>;
  }
  | {
    /** `"decline"` says no; `"cancel"` says that nobody decided. */
    readonly action: "decline" | "cancel";
  };

/** Where a question comes from. */
export interface ElicitationSource {
  /** The registered server. */
  readonly serverName: string;
  /** The tool call that was under way, where there was just one at that server. */
  readonly callId?: string | undefined;
}

/** A server's question for form fields. */
export interface FormQuestion {
  /** Tells it from the other kind. */
  readonly kind: "form";
  /** Why the server asks, in its own words. */
  readonly message: string;
  /** What it asks for. */
  readonly fields: readonly FormField[];
  /** The JSON schema of the answer, as the server sent it. */
  readonly schema: unknown;
}

/** A server's request to open an address in a browser. */
export interface UrlQuestion {
  /** Tells it from the other kind. */
  readonly kind: "url";
  /** Why the server asks, in its own words. */
  readonly message: string;
  /** The address: `http` or `https`, without a user. Show its host before it is opened. */
  readonly url: URL;
}

/** What a server asks. */
export type ElicitationQuestion = FormQuestion | UrlQuestion;

/** More than a person would read. */
const MAX_MESSAGE = 10_000;

/** Reads a server's question. */
export function parseElicitation(
  params: Readonly<Record<string, unknown>>,
): ElicitationQuestion | string {
  const { mode = "form", message, requestedSchema, url } = params;
  if (typeof message !== "string" || message.length > MAX_MESSAGE) return "its message is too long";
  if (mode === "form") {
    const fields = parseForm(requestedSchema);
    if (fields === undefined) return "its schema is not that of a form";
    return { kind: "form", message, fields, schema: requestedSchema };
  }
  const address = typeof url === "string" ? URL.parse(url) : null;
  if (address === null || !["http:", "https:"].includes(address.protocol)) {
    return "its address is neither http nor https";
  }
  if (address.username !== "" || address.password !== "") return "its address names a user";
  return { kind: "url", message, url: address };
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
