import { unicodeWidth } from "@std/cli";
import type { ElicitationRequest } from "../../approval/questions.ts";
import { visible } from "../../approval/call_text.ts";
import { Mutex } from "../../base/mutex.ts";
import { anySignal } from "../../base/signals.ts";
import {
  checkForm,
  type ElicitationAnswer,
  type FormField,
  type FormValue,
} from "../../mcp/questions.ts";
import type { RunActionOptions } from "../actions/code_action.ts";
import type { CommandIo } from "../command.ts";
import { foreignText, prose } from "../foreign_rows.ts";
import { TerminalApprover } from "./approver.ts";
import { terminalSize } from "./columns.ts";
import { TerminalPrompter } from "./prompter.ts";

/**
 * Asks the person at the terminal what MCP servers ask, one question after the other.
 *
 * All that the server wrote stands behind a mark, and what is typed stands after a line of ours that
 * names the server: no server can ask in the name of ipybox or another program.
 */
export class TerminalAnswerer {
  readonly #io: CommandIo;
  readonly #turns: Mutex;

  constructor(io: CommandIo, turns: Mutex) {
    this.#io = io;
    this.#turns = turns;
  }

  /** Answers a question. Without a terminal nobody can be asked, and it is declined. */
  async answer(request: ElicitationRequest): Promise<void> {
    const { question, serverName } = request;
    if (!this.#io.interactive) {
      this.#io.err(`Declined a question: there is no terminal to ask on. ${asked(request)}`);
      request.answer({ action: "decline" }, "approval_unavailable");
      return;
    }
    const signal = anySignal(request.signal, this.#io.signal);
    using _turn = await this.#turns.acquire();
    if (signal.aborted) return;
    const consent = question.kind === "url"
      ? `${asked(request)}It wants you to open this address, at ${visible(question.url.host)}:\n` +
        `${rows(question.url.href)}Did you open it? [y/N] `
      : `${asked(request)}Answer ${question.fields.length} fields? ` +
        `${visible(serverName)} gets what you type. [y/N] `;
    const answer = await this.#io.ask(consent, signal);
    request.answer(await this.#answerTo(request, answer, signal), "terminal");
  }

  /** What the person does who was asked whether to answer. */
  async #answerTo(
    request: ElicitationRequest,
    consent: string | null,
    signal: AbortSignal,
  ): Promise<ElicitationAnswer> {
    const { question } = request;
    if (consent === null) return { action: "cancel" };
    if (!isYes(consent)) return { action: "decline" };
    if (question.kind === "url") return { action: "accept" };
    const content = await this.#fill(request, question.fields, signal);
    return content === undefined ? { action: "cancel" } : { action: "accept", content };
  }

  /** Asks for each field until it is right; `undefined` if the person cancels or the question is withdrawn. */
  async #fill(
    { serverName }: ElicitationRequest,
    fields: readonly FormField[],
    signal: AbortSignal,
  ): Promise<Record<string, FormValue> | undefined> {
    const content: [string, FormValue][] = [];
    for (const field of fields) {
      let problems: string[];
      do {
        const typed = await this.#io.ask(prompt(field, serverName), signal);
        if (typed === null) return undefined;
        const value = typed.trim() === "" ? field.default : valueOf(field, typed.trim());
        const given = value === undefined ? {} : { [field.name]: value };
        problems = checkForm([field], given);
        if (problems.length > 0) this.#io.err(rows(problems.join("\n")).trimEnd());
        else if (value !== undefined) content.push([field.name, value]);
      } while (problems.length > 0);
    }
    return Object.fromEntries(content);
  }
}

/** Who asks, and the server's words. */
function asked({ serverName, question }: ElicitationRequest): string {
  return `The MCP server ${visible(serverName)} asks:\n${rows(question.message)}`;
}

function rows(text: string): string {
  return foreignText(text, terminalSize().columns);
}

/** The server's words on a field, and a line of ours behind which the answer is typed. */
function prompt(field: FormField, serverName: string): string {
  const { title, description, required } = field;
  const empty = field.default === undefined
    ? required ? "" : ", or nothing"
    : ", or nothing for the default";
  return [
    rows(title),
    ...(description === undefined ? [] : [rows(description)]),
    ...("options" in field ? field.options.map(optionRows) : []),
    ...(field.default === undefined
      ? []
      : ["  It suggests:\n", rows(JSON.stringify(field.default))]),
    `Answer to ${visible(serverName)} (${howToType(field)}${empty}): `,
  ].join("");
}

function howToType(field: FormField): string {
  switch (field.type) {
    case "text":
      return field.format ?? "text";
    case "number":
      return "number";
    case "integer":
      return "whole number";
    case "boolean":
      return "yes or no";
    case "choice":
      return `1 to ${field.options.length}`;
    case "choices":
      return `1 to ${field.options.length}, any of them, with commas between`;
  }
}

/** An option behind its number, which only its first row has. */
function optionRows({ title }: { readonly title: string }, at: number): string {
  const number = `${at + 1}`;
  const [first = "", ...rest] = prose(visible(title), terminalSize().columns - number.length);
  const gap = " ".repeat(number.length);
  return [`  ${number}${first.slice(1)}`, ...rest.map((row) => `${gap} ${row.slice(1)}`)]
    .map((row) => `${row}\n`).join("");
}

/** What was typed, as a value of the field. Invalid input stays text, which the check rejects. */
function valueOf(field: FormField, typed: string): FormValue {
  switch (field.type) {
    case "text":
      return typed;
    case "number":
    case "integer":
      return Number.isNaN(Number(typed)) ? typed : Number(typed);
    case "boolean":
      return isYes(typed) ? true : /^no?$/i.test(typed) ? false : typed;
    case "choice":
      return chosen(field.options, typed);
    case "choices":
      return typed.split(",").map((part) => chosen(field.options, part.trim()));
  }
}

/** The value of an option that was named by its number, its title or itself. */
function chosen(options: readonly { value: string; title: string }[], typed: string): string {
  const option = options.find(({ value, title }) => typed === value || typed === title) ??
    (/^\d+$/.test(typed) ? options[Number(typed) - 1] : undefined);
  return option?.value ?? typed;
}

function isYes(text: string): boolean {
  return /^\s*y(es)?\s*$/i.test(text);
}

/**
 * Has the person at the terminal asked whatever code and MCP servers ask, one thing after the other.
 */
export function askAtTerminal(
  io: CommandIo,
): Required<Pick<RunActionOptions, "decide" | "answer">> & Pick<RunActionOptions, "prompt"> {
  const turns = new Mutex();
  const approver = new TerminalApprover(io, "--approve allow", turns);
  const prompter = new TerminalPrompter(io, turns);
  const answerer = new TerminalAnswerer(io, turns);
  return {
    decide: (request) => approver.decide(request),
    answer: (request) => answerer.answer(request),
    prompt: io.interactive ? (request) => prompter.prompt(request) : undefined,
  };
}

/** How long nothing must be typed at a question, in steps, before an answer to it counts. */
const QUIET_STEPS = 10;
const STEP_MS = 25;

/** A question's line, as it is typed key by key. */
export class AnswerLine {
  /** Settles once the line is typed: with `null` where it never will be. */
  readonly answer: Promise<string | null>;
  readonly #answered = Promise.withResolvers<string | null>();
  readonly #write: (text: string) => void;
  readonly #isSecret: boolean;
  readonly #decoder = new TextDecoder();
  #text = "";
  #isOpen = false;
  #stepsLeft = QUIET_STEPS;
  #hasEarly = false;
  #hasEnded = false;

  constructor(write: (text: string) => void, { isSecret = false }: { isSecret?: boolean } = {}) {
    this.#write = write;
    this.#isSecret = isSecret;
    this.answer = this.#answered.promise;
  }

  /** Takes all that is typed for the answer. */
  open(): void {
    this.#isOpen = true;
  }

  /**
   * Waits until the question has stood for as long as reading takes, without a key pressed. Such
   * keys were pressed for something else, or by somebody who has not read it.
   *
   * The time is counted in steps: a process that the machine lets wait would else take up what was
   * typed before the question only after that time.
   */
  async untilQuiet(signal: AbortSignal): Promise<boolean> {
    this.#stepsLeft = QUIET_STEPS;
    this.#hasEarly = false;
    const quiet = Promise.withResolvers<void>();
    const timer = setInterval(() => {
      if (--this.#stepsLeft === 0) quiet.resolve();
    }, STEP_MS);
    const stop = () => quiet.resolve();
    signal.addEventListener("abort", stop, { once: true });
    try {
      await Promise.race([quiet.promise, this.answer]);
    } finally {
      clearInterval(timer);
      signal.removeEventListener("abort", stop);
    }
    this.#isOpen = this.#hasEnded || !this.#hasEarly;
    return this.#isOpen || signal.aborted;
  }

  /** Takes keys. */
  type(bytes: Uint8Array): boolean {
    const text = this.#decoder.decode(bytes, { stream: true });
    for (const character of text) {
      // Nobody types on: a question without an answer is refused, however early that is.
      if (character === "\x04" && this.#text === "") return this.end(null);
      if (!this.#isOpen) {
        this.#stepsLeft = QUIET_STEPS;
        this.#hasEarly ||= /[\r\n]/.test(character);
      } else if (/[\r\n]/.test(character)) {
        this.#write("\n");
        return this.end(this.#text);
      } else this.#edit(character);
    }
    return false;
  }

  /** Ends the line. */
  end(text: string | null): true {
    this.#hasEnded = true;
    this.#answered.resolve(text);
    return true;
  }

  #edit(character: string): void {
    switch (character) {
      case "\x7f": // Backspace
      case "\b":
        return this.#erase([...segments(this.#text)].at(-1) ?? "");
      case "\x15": // Ctrl-U
        return this.#erase(this.#text);
      case "\x17": // Ctrl-W
        return this.#erase(this.#text.slice(lastWord(this.#text)));
      default:
        this.#text += character;
        if (!this.#isSecret) this.#write(shown(character));
    }
  }

  #erase(end: string): void {
    this.#text = this.#text.slice(0, this.#text.length - end.length);
    if (this.#isSecret) return;
    const width = unicodeWidth(shown(end));
    this.#write("\b \b".repeat(width));
  }
}

function segments(text: string): string[] {
  return Array.from(new Intl.Segmenter().segment(text), ({ segment }) => segment);
}

/** As terminals echo it. */
function shown(text: string): string {
  return text.replace(
    /\p{Cc}/gu,
    (control) => `^${String.fromCharCode((control.codePointAt(0) ?? 0) ^ 0x40)}`,
  );
}

/** Where the last word of a text begins. */
function lastWord(text: string): number {
  return Math.max(...[" ", "\t"].map((blank) => text.trimEnd().lastIndexOf(blank))) + 1;
}
