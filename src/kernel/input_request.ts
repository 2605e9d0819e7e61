/** What code asks for. */
export interface InputQuestion {
  /** The code's own words, which nobody has checked; of long ones the end. */
  readonly prompt: string;
  /** Whether the answer is not to be shown as it is typed. */
  readonly isPassword: boolean;
}

/** More than a person reads before typing a line. */
const MAX_PROMPT = 2000;

/** What the kernel takes for the end of all input. */
export const END_OF_INPUT = "\x04";

/** Reads what code asks for, which it may have forged. */
export function inputQuestion(content: Readonly<Record<string, unknown>>): InputQuestion {
  const { prompt, password } = content;
  const text = typeof prompt === "string" ? prompt : "";
  const shown = text.length > MAX_PROMPT ? `…${text.slice(-MAX_PROMPT)}` : text;
  return { prompt: shown, isPassword: password === true };
}

/**
 * A question of executed code to the person at the application, by `input()`, `getpass.getpass()` or a
 * debugger. The code waits for the answer. The first one counts; later ones change nothing.
 *
 * @example
 * ```ts
 * import type { InputRequest } from "@ipybox/ipybox";
 *
 * function answer(request: InputRequest): void {
 *   if (request.isPassword) request.end(); // raises EOFError
 *   else request.answer(prompt(`The code asks: ${request}`) ?? "");
 * }
 * ```
 */
export class InputRequest implements InputQuestion {
  /** The code's own words, which nobody has checked; of long ones the end. */
  readonly prompt: string;
  /** Whether the answer is not to be shown as it is typed. */
  readonly isPassword: boolean;
  readonly #reply: (value: string) => void;
  readonly #closed = Promise.withResolvers<void>();
  readonly #withdrawn = new AbortController();
  #isOpen = true;

  /**
   * Made by ipybox, not by hand.
   *
   * @param question What is asked.
   * @param reply Sends the answer.
   */
  constructor(question: InputQuestion, reply: (value: string) => void) {
    this.prompt = question.prompt;
    this.isPassword = question.isPassword;
    this.#reply = reply;
  }

  /** Aborts when the question is taken back: the code was interrupted, has ended or asks anew. */
  get signal(): AbortSignal {
    return this.#withdrawn.signal;
  }

  /** Resolves once the question is answered or taken back. */
  get closed(): Promise<void> {
    return this.#closed.promise;
  }

  /**
   * Answers.
   *
   * @param text A line, without its end.
   * @returns Whether this answer counted: `false` after another one, or when it came too late.
   */
  answer(text: string): boolean {
    if (!this.#close()) return false;
    this.#reply(text);
    return true;
  }

  /**
   * Says that there is no answer, as Ctrl-D does: the code sees an `EOFError`.
   *
   * @returns Whether this counted.
   */
  end(): boolean {
    return this.answer(END_OF_INPUT);
  }

  /**
   * Takes the question back. For whoever passed it on.
   *
   * @param reason Why.
   */
  withdraw(reason: string): void {
    if (this.#close()) this.#withdrawn.abort(new DOMException(reason, "AbortError"));
  }

  /** The code's words, safe to print on a terminal. */
  toString(): string {
    return this.prompt.replace(UNPRINTABLE, " ").trim();
  }

  #close(): boolean {
    if (!this.#isOpen) return false;
    this.#isOpen = false;
    this.#closed.resolve();
    return true;
  }
}

/** What is invisible, moves the cursor or turns the direction. */
const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]+/gu;
