import type { ElicitationRequest } from "../../approval/questions.ts";
import { visible } from "../../approval/call_text.ts";
import { isShell } from "../../approval/request.ts";
import { Mutex } from "../../base/mutex.ts";
import { anySignal } from "../../base/signals.ts";
import {
  checkForm,
  type ElicitationAnswer,
  type FormField,
  type FormValue,
} from "../../mcp/questions.ts";
import type { InputRequest } from "../../kernel/execution.ts";
import { END_OF_INPUT } from "../../kernel/jupyter.ts";
import type { RunActionOptions } from "../actions/code_action.ts";
import type { CommandIo } from "../command.ts";
import { foreignText, prose } from "../foreign_rows.ts";
import { ApprovalDialogue } from "./approver.ts";
import { terminalSize, widthOf } from "../../base/terminal.ts";

/**
 * Asks the person at the terminal the questions of MCP servers, one at a time.
 *
 * Rows with the server's text start with a mark, and input follows a line of ours that names the
 * server: no server can ask in the name of ipybox or another program.
 */
export async function answerAtTerminal(
  request: ElicitationRequest,
  { io, turns }: { readonly io: CommandIo; readonly turns: Mutex },
): Promise<void> {
  const { question, serverName } = request;
  if (!io.interactive) {
    io.err(`Declined a question: there is no terminal to ask on. ${asked(request)}`);
    request.answer({ action: "decline" }, "approval_unavailable");
    return;
  }
  const signal = anySignal(request.signal, io.signal);
  using _turn = await turns.acquire();
  if (signal.aborted) return;
  const consent = question.kind === "url"
    ? `${asked(request)}It wants you to open this address, at ${visible(question.url.host)}:\n` +
      `${rows(question.url.href)}Did you open it? [y/N] `
    : `${asked(request)}Answer ${question.fields.length} fields? ` +
      `${visible(serverName)} gets what you type. [y/N] `;
  const typed = await io.ask(consent, signal);
  request.answer(await answerTo(request, typed, { io, signal }), "terminal");
}

interface Asking {
  readonly io: CommandIo;
  readonly signal: AbortSignal;
}

/** The person's answer, after they were asked whether to give one. */
async function answerTo(
  { question, serverName }: ElicitationRequest,
  consent: string | null,
  asking: Asking,
): Promise<ElicitationAnswer> {
  if (consent === null) return { action: "cancel" };
  if (!isYes(consent)) return { action: "decline" };
  if (question.kind === "url") return { action: "accept" };
  const content = await fill(serverName, question.fields, asking);
  return content === undefined ? { action: "cancel" } : { action: "accept", content };
}

/** Asks for each field until it is valid; `undefined` if it is cancelled or withdrawn. */
async function fill(
  serverName: string,
  fields: readonly FormField[],
  { io, signal }: Asking,
): Promise<Record<string, FormValue> | undefined> {
  const content: [string, FormValue][] = [];
  for (const field of fields) {
    let problems: string[];
    do {
      const typed = await io.ask(prompt(field, serverName), signal);
      if (typed === null) return undefined;
      const value = typed.trim() === "" ? field.default : valueOf(field, typed.trim());
      const given = value === undefined ? {} : { [field.name]: value };
      problems = checkForm([field], given);
      if (problems.length > 0) io.err(rows(problems.join("\n")).trimEnd());
      else if (value !== undefined) content.push([field.name, value]);
    } while (problems.length > 0);
  }
  return Object.fromEntries(content);
}

/** The server and its message. */
function asked({ serverName, question }: ElicitationRequest): string {
  return `The MCP server ${visible(serverName)} asks:\n${rows(question.message)}`;
}

function rows(text: string): string {
  return foreignText(text, terminalSize().columns);
}

/** The server's text about a field, and our input line. */
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

/** An option with its number, which only the first row shows. */
function optionRows({ title }: { readonly title: string }, at: number): string {
  const number = `${at + 1}`;
  const [first = "", ...rest] = prose(visible(title), terminalSize().columns - number.length);
  const gap = " ".repeat(number.length);
  return [`  ${number}${first.slice(1)}`, ...rest.map((row) => `${gap} ${row.slice(1)}`)]
    .map((row) => `${row}\n`).join("");
}

/** Converts input to the field's type. Invalid input stays text, which the check rejects. */
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

/** The value of an option chosen by its number, title or value. */
function chosen(options: readonly { value: string; title: string }[], typed: string): string {
  const option = options.find(({ value, title }) => typed === value || typed === title) ??
    (/^\d+$/.test(typed) ? options[Number(typed) - 1] : undefined);
  return option?.value ?? typed;
}

function isYes(text: string): boolean {
  return /^\s*y(es)?\s*$/i.test(text);
}

/** The most lines of the code's prompt to show before its last one. */
const MAX_LINES = 20;

/** The minimum width for the input after the code's prompt. */
const ROOM = 20;

/** Asks for the input of code. Its prompt follows ours, so it cannot ask in the name of ipybox. */
async function promptAtTerminal(
  request: InputRequest,
  { io, turns }: { readonly io: CommandIo; readonly turns: Mutex },
): Promise<void> {
  const signal = anySignal(request.signal, io.signal);
  using _turn = await turns.acquire();
  if (signal.aborted) return;
  const { before, label, words } = promptOf(request, terminalSize().columns);
  io.errText(before);
  const typed = await io.enter({ label, words, isSecret: request.isPassword }, signal);
  request.answer(typed ?? END_OF_INPUT, "terminal"); // has no effect if it was withdrawn
}

/** The rows before the input line, and the beginning of that line. */
function promptOf(
  { prompt, isPassword }: InputRequest,
  columns: number,
): { before: string; label: string; words: string } {
  const label = isPassword ? "Code asks (your input is hidden): " : "Code asks: ";
  const lines = prompt.split("\n");
  const last = visible(lines.at(-1) ?? "");
  const fits = widthOf(label + last) + ROOM <= columns;
  if (fits) lines.pop();
  const left = lines.length - MAX_LINES;
  const shown = left > 0 ? lines.slice(left) : lines;
  const before = (left > 0 ? `  … ${left} lines before\n` : "") +
    (shown.length === 0 ? "" : foreignText(shown.join("\n"), columns));
  return { before, label, words: fits ? last : "" };
}

/** Creates handlers that ask the person the questions of code and servers, one at a time. */
export function askAtTerminal(
  io: CommandIo,
  instead = "--approve allow allows calls",
): Required<Pick<RunActionOptions, "decide" | "answer">> & Pick<RunActionOptions, "prompt"> {
  const turns = new Mutex();
  let waiting = 0;
  return {
    decide: async (request) => {
      if (!io.interactive) {
        const other = isShell(request) ? "--approve-shell allow allows commands" : instead;
        const reason = `there is no terminal to ask on (${other})`;
        request.withdraw({ accepted: false, type: "approval_unavailable", reason });
        return;
      }
      waiting++;
      try {
        using _turn = await turns.acquire();
        await new ApprovalDialogue(io, request, () => waiting - 1).run();
      } finally {
        waiting--;
      }
    },
    answer: (request) => answerAtTerminal(request, { io, turns }),
    prompt: io.interactive ? (request) => promptAtTerminal(request, { io, turns }) : undefined,
  };
}
