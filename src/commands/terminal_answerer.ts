import type { Mutex } from "../async/mutex.ts";
import { anySignal } from "../async/signals.ts";
import type { ElicitationRequest } from "../mcp/elicitation.ts";
import { checkForm, type FormField, type FormValue } from "../mcp/form.ts";
import type { CommandIo } from "./command.ts";
import { printable } from "./printable.ts";

/** Asks the person at the terminal what MCP servers ask, one question after the other. */
export class TerminalAnswerer {
  readonly #io: CommandIo;
  readonly #turns: Mutex;

  /**
   * @param io The terminal, if there is one.
   * @param turns Keeps others from asking at the same time.
   */
  constructor(io: CommandIo, turns: Mutex) {
    this.#io = io;
    this.#turns = turns;
  }

  /**
   * Answers a question. Without a terminal nobody can be asked, and it is declined.
   *
   * @param request The question.
   */
  async answer(request: ElicitationRequest): Promise<void> {
    const { question } = request;
    if (!this.#io.interactive) {
      this.#io.err(`Declined: ${printable(`${request}`)} There is no terminal to ask at`);
      request.decline();
      return;
    }
    const signal = anySignal(request.signal, this.#io.signal);
    using _turn = await this.#turns.acquire();
    if (signal.aborted) return;
    const consent = question.kind === "url"
      ? `${
        printable(`${request}`)
      }\nIt wants you to open this address, at ${question.url.host}:\n` +
        `  ${printable(question.url.href)}\nDid you open it? [y/N] `
      : `${printable(`${request}`)}\nAnswer ${question.fields.length} fields? [y/N] `;
    const answer = await this.#io.ask(consent, signal);
    if (answer === null) return void request.cancel();
    if (!isYes(answer)) return void request.decline();
    if (question.kind === "url") return void request.accept();
    const content = await this.#fill(question.fields, signal);
    if (content === undefined) request.cancel();
    else request.accept(content);
  }

  /** Asks for each field until it is right; `undefined` where the person or the server gives up. */
  async #fill(
    fields: readonly FormField[],
    signal: AbortSignal,
  ): Promise<Record<string, FormValue> | undefined> {
    const content: [string, FormValue][] = [];
    for (const field of fields) {
      let problems: string[];
      do {
        const typed = await this.#io.ask(prompt(field), signal);
        if (typed === null) return undefined;
        const value = typed.trim() === "" ? field.default : valueOf(field, typed.trim());
        const given = value === undefined ? {} : { [field.name]: value };
        problems = checkForm([field], given);
        if (problems.length > 0) this.#io.err(`  ${printable(problems.join("; "))}`);
        else if (value !== undefined) content.push([field.name, value]);
      } while (problems.length > 0);
    }
    return Object.fromEntries(content);
  }
}

/** One line that tells what is asked for, and how it is typed. */
function prompt(field: FormField): string {
  const { title, description, required } = field;
  const about = description === undefined ? "" : ` (${printable(description)})`;
  const how = howToType(field);
  const empty = field.default === undefined
    ? required ? "" : ", or nothing"
    : `, or nothing for ${printable(JSON.stringify(field.default))}`;
  return `  ${printable(title)}${about} [${how}${empty}]: `;
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
      return `one of ${titles(field.options)}`;
    case "choices":
      return `any of ${titles(field.options)}, with commas between`;
  }
}

function titles(options: readonly { readonly title: string }[]): string {
  return options.map(({ title }, at) => `${at + 1} ${printable(title)}`).join(", ");
}

/** What was typed as a value of the field; what is none stays text, of which the check tells. */
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
