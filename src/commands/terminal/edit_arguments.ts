import { messageOf } from "../../base/message_of.ts";
import { join } from "node:path";
import { escapeHidden, visible } from "../../approval/call_text.ts";
import type { ApprovalRequest } from "../../approval/request.ts";
import { PrivateFolder } from "../../files/private_folder.ts";
import { type ExactObject, isExactObject, parseExact, stringifyExact } from "../../json/exact.ts";
import { shellWord } from "../../base/shell_word.ts";
import { findProgram, namedProgram, requireProgram } from "../../process/program.ts";
import { runProgram } from "../../process/run_program.ts";
import { wrapped } from "../../base/terminal.ts";
import { MARK } from "../foreign_rows.ts";
import { isShell } from "./approval_text.ts";
import { terminalSize } from "./columns.ts";

/** What is edited. */
interface EditedRequest {
  /** The request. */
  readonly request: ApprovalRequest;
  /** Its arguments as they are now. */
  readonly argumentsJson: string;
}

/** Who edits. */
interface EditDialogue {
  /** What of the arguments is edited, where the person has said so already. */
  readonly which: string;
  /** Ends it. */
  readonly signal: AbortSignal;
  /** Asks for a line, where there is no editor. */
  ask(question: string): Promise<string | null>;
  /** Leaves the terminal to the editor. */
  lend<T>(use: () => Promise<T>): Promise<T>;
}

/** New arguments, or why there are none. */
type Edited =
  | { readonly arguments: ExactObject; readonly argumentsJson: string }
  | { readonly problem: string };

/** Something of the arguments that is edited by itself; without a `name`, all of them as JSON. */
interface Target {
  readonly name?: string;
  readonly text: string;
  readonly file: string;
}

/** A text that is longer, or has several lines, is not read as JSON. */
const MAX_INLINE = 80;

/** The file of a shell command. */
const COMMAND = "command.sh";

/** How many texts can be chosen from. The others are in the JSON. */
const MAX_TEXTS = 9;

/**
 * Has the arguments of a call edited: the command of a shell line, a long text and one of several
 * lines as they are, all others as JSON.
 */
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

/** What of the arguments is edited: where there is a choice, the person has it. */
async function choose(
  request: ApprovalRequest,
  args: ExactObject,
  { ask, which }: EditDialogue,
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
  const answer = which || await ask(`${choices(texts)}Edit which? `);
  if (answer === null) return { problem: "nothing was chosen" };
  const chosen = answer.trim();
  if (/^j(son)?$/i.test(chosen)) return json;
  return texts.find(({ name }, at) => chosen === `${at + 1}` || chosen === name) ??
    { problem: `${visible(chosen)} is not one of the choices` };
}

/** The texts, by numbers: their names are not ours. */
function choices(texts: readonly Target[]): string {
  const rows = texts.map(({ name = "", text }, at) => {
    const lines = text.split("\n").length;
    const size = lines === 1 ? `${text.length} characters` : `${lines} lines`;
    const [row = ""] = wrapped(visible(name), terminalSize().columns - 32);
    return `  ${at + 1}  ${size}${MARK}${row}\n`;
  });
  return `${rows.join("")}  j  all arguments as JSON\n`;
}

/** A file's name that says what is in it, where the argument's does. */
function fileOf(name: string): string {
  return /^\w{1,40}$/.test(name) ? `${name}.txt` : "text.txt";
}

async function edit(
  { name, text, file }: Target,
  { signal, ask, lend }: EditDialogue,
): Promise<EditedText> {
  const shown = template(text);
  try {
    // What fits in a row can be typed again. Lent right after the answer, before more is read.
    const edited = hasNamedEditor() || shown === ""
      ? await lend(() => editText(text, { name: file, signal }))
      : undefined;
    if (edited !== undefined) return edited;
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    return { problem: error.message };
  }
  const [what, it] = name === undefined
    ? ["Arguments as JSON", "them as they are"]
    : [file === COMMAND ? "Command" : "Text", "it as it is"];
  const answer = await ask(
    `${shown}${what} (Enter leaves ${it}; EDITOR=… gives you an editor): `,
  );
  return answer === null || answer.trim() === ""
    ? { problem: "nothing was typed" }
    : { text: answer };
}

/** What is edited, in the form in which it is typed, where it surely fits in a row. */
function template(text: string): string {
  const shown = `${MARK}${text.trimEnd().replace(/\n */g, " ")}`;
  const fits = shown.length < terminalSize().columns && /^[ -~]*$/.test(shown);
  return fits ? `${shown}\n` : "";
}

/** Whether nothing of a text is invisible, but for ends of lines and tabs. */
function isPlain(text: string): boolean {
  const inOneLine = text.replace(/[\n\t]/g, " ");
  return escapeHidden(inOneLine, unicodeEscape) === inOneLine;
}

function checked(args: unknown): Edited {
  if (!isExactObject(args)) return { problem: "arguments must be a JSON object" };
  return { arguments: args, argumentsJson: stringifyExact(args) };
}

/** JSON with one value a line, in which nothing is invisible. */
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

/** Editors end the last line, whether or not it had an end. */
function withoutLastEnd(text: string, before: string): string {
  return before.endsWith("\n") ? text : text.replace(/\n$/, "");
}

/** What is edited, and until when. */
interface EditOptions {
  /** The file's name, by which editors know what it is. */
  readonly name: string;
  /** Ends the editor. */
  readonly signal: AbortSignal;
}

/** What is left of a text, or why that is nothing new. */
type EditedText = { readonly text: string } | { readonly problem: string };

/** Editors that are used where none is named. */
const USUAL = ["nano", "vi"];

/** Whether the person has named an editor by `VISUAL` or `EDITOR`. */
function hasNamedEditor(): boolean {
  return namedEditor() !== undefined;
}

/**
 * Has a text edited at the terminal, in the editor that `VISUAL` or `EDITOR` names, or else in a usual
 * one.
 */
async function editText(
  text: string,
  { name, signal }: EditOptions,
): Promise<EditedText | undefined> {
  const command = await editorCommand();
  if (command === undefined) return undefined;
  await using folder = await PrivateFolder.create(); // nobody else's to read
  const path = join(folder.path, name);
  await Deno.writeTextFile(path, text, { mode: 0o600 });
  try {
    const { success, code } = await runProgram(namedProgram("/bin/sh"), {
      // An editor's command may have arguments. Stdout is for results.
      args: ["-c", `${command} "$1" >&2`, "sh", path],
      cwd: folder.path,
      atTerminal: true,
      signal,
    });
    if (!success) return { problem: `the editor exited with code ${code}` };
    const after = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })
      .decode(await Deno.readFile(path));
    return after === text ? { problem: "no changes were made in the editor" } : { text: after };
  } catch (error) {
    if (signal.aborted) return { problem: "the request is no longer pending" };
    if (error instanceof Deno.errors.NotFound) return { problem: "the editor removed the file" };
    if (error instanceof TypeError) return { problem: "the edited file is not UTF-8 text" };
    throw error;
  }
}

/** The editor as a command for a shell. */
async function editorCommand(): Promise<string | undefined> {
  const named = namedEditor();
  if (named !== undefined) {
    const [name] = /^[\w.+-]+(?=\s|$)/.exec(named) ?? [];
    // What is more than a name and arguments is for the shell.
    if (name === undefined) return named;
    return `exec ${shellWord(await requireProgram(name))}${named.slice(name.length)}`;
  }
  for (const name of USUAL) {
    const program = await findProgram(name);
    if (program !== undefined) return `exec ${shellWord(program)}`;
  }
  return undefined;
}

function namedEditor(): string | undefined {
  return Deno.env.get("VISUAL")?.trim() || Deno.env.get("EDITOR")?.trim() || undefined;
}
