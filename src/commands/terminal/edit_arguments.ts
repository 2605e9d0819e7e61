import { messageOf } from "../../base/message_of.ts";
import { escapeHidden, visible } from "../../approval/call_text.ts";
import { type ApprovalRequest, isShell } from "../../approval/request.ts";
import { type ExactObject, isExactObject, parseExact, stringifyExact } from "../../json/exact.ts";
import { terminalSize, wrapped } from "../../base/terminal.ts";
import type { CommandIo } from "../command.ts";
import { MARK } from "../foreign_rows.ts";
import { type EditedText, editText } from "./editor.ts";

interface EditedRequest {
  readonly request: ApprovalRequest;
  readonly argumentsJson: string;
}

interface EditDialogue {
  /** The argument that the person has chosen already; empty otherwise. */
  readonly which: string;
  readonly signal: AbortSignal;
  readonly io: Pick<CommandIo, "ask" | "lend">;
}

/** New arguments, or the reason why they are missing. */
type Edited =
  | { readonly arguments: ExactObject; readonly argumentsJson: string }
  | { readonly problem: string };

/** An argument to edit; without a `name`, all arguments as JSON. */
interface Target {
  readonly name?: string;
  readonly text: string;
  readonly file: string;
}

/** Texts longer than this or with several lines are edited as text instead of JSON. */
const MAX_INLINE = 80;

const COMMAND = "command.sh";

/** The most texts to choose from; the others are in the JSON. */
const MAX_TEXTS = 9;

/** Lets a person edit a call's arguments: a command or a long text as text, others as JSON. */
export async function editArguments(
  { request, argumentsJson }: EditedRequest,
  dialogue: EditDialogue,
): Promise<Edited> {
  const args = parseExact(argumentsJson);
  if (!isExactObject(args)) return { problem: "its arguments are not a JSON object" };
  const target = await choose(request, args, dialogue);
  if ("problem" in target) return target;
  const { name, text } = target;
  const after = await edit(target, dialogue);
  if ("problem" in after) return after;
  if (name !== undefined) return checked({ ...args, [name]: withoutLastEnd(after.text, text) });
  try {
    return checked(parseExact(after.text));
  } catch (error) {
    return { problem: `not valid JSON: ${messageOf(error)}` };
  }
}

/** Determines the text to edit, and asks if there is a choice. */
async function choose(
  request: ApprovalRequest,
  args: ExactObject,
  { io, which, signal }: EditDialogue,
): Promise<Target | { readonly problem: string }> {
  const json = { text: `${readableJson(args)}\n`, file: "arguments.json" };
  const entries = Object.entries(args);
  const texts = entries.flatMap(([name, text]): Target[] => {
    if (typeof text !== "string" || !isPlain(text)) return [];
    const isCommand = isShell(request) && name === "cmd";
    if (!isCommand && text.length <= MAX_INLINE && !text.includes("\n")) return [];
    return [{ name, text, file: isCommand ? COMMAND : fileOf(name) }];
  }).slice(0, MAX_TEXTS);
  const [first] = texts;
  const command = texts.find(({ file }) => file === COMMAND);
  if (first === undefined) return json;
  if (command !== undefined || entries.length === 1) return command ?? first;
  const answer = which || await io.ask(`${choices(texts)}Edit which? `, signal);
  if (answer === null) return { problem: "nothing was chosen" };
  const chosen = answer.trim();
  if (/^j(son)?$/i.test(chosen)) return json;
  return texts.find(({ name }, at) => chosen === `${at + 1}` || chosen === name) ??
    { problem: `${visible(chosen)} is not one of the choices` };
}

/** Lists the texts by number, since code chooses their names. */
function choices(texts: readonly Target[]): string {
  const rows = texts.map(({ name = "", text }, at) => {
    const lines = text.split("\n").length;
    const size = lines === 1 ? `${text.length} characters` : `${lines} lines`;
    const [row = ""] = wrapped(visible(name), terminalSize().columns - 32);
    return `  ${at + 1}  ${size}${MARK}${row}\n`;
  });
  return `${rows.join("")}  j  all arguments as JSON\n`;
}

/** A file name from the argument's name, if that is suitable. */
function fileOf(name: string): string {
  return /^\w{1,40}$/.test(name) ? `${name}.txt` : "text.txt";
}

async function edit({ text, file }: Target, { signal, io }: EditDialogue): Promise<EditedText> {
  try {
    const edited = await io.lend(() => editText(text, { name: file, signal }));
    return "text" in edited && edited.text === text
      ? { problem: "no changes were made in the editor" }
      : edited;
  } catch (error) {
    if (signal.aborted) return { problem: "the request is no longer pending" };
    throw error;
  }
}

/** Whether a text contains nothing invisible except line breaks and tabs. */
function isPlain(text: string): boolean {
  const inOneLine = text.replace(/[\n\t]/g, " ");
  return escapeHidden(inOneLine, unicodeEscape) === inOneLine;
}

function checked(args: unknown): Edited {
  if (!isExactObject(args)) return { problem: "arguments must be a JSON object" };
  return { arguments: args, argumentsJson: stringifyExact(args) };
}

/** JSON with one value per line and without invisible characters. */
function readableJson(args: ExactObject): string {
  return JSON.stringify(args, null, 2).split("\n").map((line) => escapeHidden(line, unicodeEscape))
    .join("\n");
}

function unicodeEscape(character: string): string {
  return Array.from(
    { length: character.length },
    (_, at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, "0")}`,
  ).join("");
}

/** Removes a line break that the editor added at the end. */
function withoutLastEnd(text: string, before: string): string {
  return before.endsWith("\n") ? text : text.replace(/\n$/, "");
}
