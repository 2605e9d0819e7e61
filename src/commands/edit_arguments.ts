import { escapeHidden, visible } from "../approval/call_text.ts";
import type { ApprovalRequest } from "../approval/request.ts";
import { type ExactObject, isExactObject, parseExact, stringifyExact } from "../json/exact.ts";
import { isShell } from "./approval_text.ts";
import { editorCommand, editText } from "./editor.ts";
import { MARK } from "./foreign_rows.ts";
import { terminalSize } from "./terminal_size.ts";

/** What is edited. */
export interface EditedRequest {
  /** The request. */
  readonly request: ApprovalRequest;
  /** Its arguments as they are now. */
  readonly argumentsJson: string;
}

/** Who edits. */
export interface EditDialogue {
  /** Ends it. */
  readonly signal: AbortSignal;
  /** Asks for a line, where there is no editor. */
  ask(question: string): Promise<string | null>;
  /** Leaves the terminal to the editor. */
  lend<T>(use: () => Promise<T>): Promise<T>;
}

/** New arguments, or why there are none. */
export type Edited =
  | { readonly arguments: ExactObject; readonly argumentsJson: string }
  | { readonly problem: string };

/**
 * Has the arguments of a call edited: the command of a shell line as it is, other arguments as JSON.
 *
 * @param edited The call.
 * @param dialogue Who edits.
 * @returns The new arguments, or why there are none.
 */
export async function editArguments(
  { request, argumentsJson }: EditedRequest,
  dialogue: EditDialogue,
): Promise<Edited> {
  const args = parseExact(argumentsJson);
  if (!isExactObject(args)) return { problem: "its arguments are no JSON object" };
  const { cmd } = args;
  const asShell = isShell(request) && typeof cmd === "string";
  const before = asShell ? cmd : readableJson(args);
  const after = await edit(before, asShell, dialogue);
  if ("problem" in after) return after;
  if (asShell) return checked({ ...args, cmd: withoutLastEnd(after.text, before) });
  try {
    return checked(parseExact(after.text));
  } catch (error) {
    return { problem: `that is no JSON: ${error instanceof Error ? error.message : error}` };
  }
}

async function edit(
  text: string,
  asShell: boolean,
  { signal, ask, lend }: EditDialogue,
): Promise<{ readonly text: string } | { readonly problem: string }> {
  const editor = editorCommand();
  if (editor !== undefined) {
    const name = asShell ? "command.sh" : "arguments.json";
    return await lend(() => editText(editor, asShell ? text : text + "\n", { name, signal }));
  }
  const [what, it] = asShell
    ? ["Command", "it as it is"]
    : ["Arguments as JSON", "them as they are"];
  const answer = await ask(
    `${template(text, asShell)}${what} (Enter leaves ${it}; EDITOR=… gives you an editor): `,
  );
  return answer === null || answer.trim() === ""
    ? { problem: "nothing was typed" }
    : { text: answer };
}

/** What is edited, in the form in which it is typed, where it surely fits in a row. */
function template(text: string, asShell: boolean): string {
  const row = asShell ? visible(text) : text.replace(/\n */g, " ");
  const shown = `${MARK}${row}`;
  const fits = shown.length < terminalSize().columns && /^[ -~]*$/.test(shown);
  return fits ? `${shown}\n` : "";
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
