import { join } from "node:path";
import { shellWord } from "../../base/shell_word.ts";
import { PrivateFolder } from "../../files/private_folder.ts";
import { findProgram, namedProgram, requireProgram } from "../../process/program.ts";
import { runProgram } from "../../process/run_program.ts";

interface EditOptions {
  /** The file name, from which editors infer the format. */
  readonly name: string;
  readonly signal: AbortSignal;
}

/** The edited text, or the reason why it is missing. */
export type EditedText = { readonly text: string } | { readonly problem: string };

/** Editors to use if none is configured. */
const USUAL = ["nano", "vi"];

/**
 * Edits a text in the editor that `VISUAL` or `EDITOR` names, or else in a common one. The terminal must
 * have been lent to it.
 */
export async function editText(
  text: string,
  { name, signal }: EditOptions,
): Promise<EditedText> {
  const command = await editorCommand();
  if (typeof command !== "string") return command;
  await using folder = await PrivateFolder.create();
  const path = join(folder.path, name);
  await Deno.writeTextFile(path, text, { mode: 0o600 });
  try {
    const { success, code } = await runProgram(namedProgram("/bin/sh"), {
      // The editor's command may have arguments. Stdout is reserved for results. The shell outlives
      // a Ctrl-C that the editor takes, as editors do.
      args: ["-c", `trap : INT; ${command} "$1" >&2`, "sh", path],
      cwd: folder.path,
      atTerminal: true,
      signal,
    });
    if (!success) return { problem: `the editor exited with code ${code}` };
    const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
    return { text: decoder.decode(await Deno.readFile(path)) };
  } catch (error) {
    if (signal.aborted) throw error;
    if (error instanceof Deno.errors.NotFound) return { problem: "the editor removed the file" };
    if (error instanceof TypeError) return { problem: "the edited file is not UTF-8 text" };
    throw error;
  }
}

async function editorCommand(): Promise<string | { readonly problem: string }> {
  const named = Deno.env.get("VISUAL")?.trim() || Deno.env.get("EDITOR")?.trim();
  if (named) {
    const [name] = /^[\w.+-]+(?=\s|$)/.exec(named) ?? [];
    // Anything more complex than a name and arguments is left to the shell.
    if (name === undefined) return named;
    try {
      return `exec ${shellWord(await requireProgram(name))}${named.slice(name.length)}`;
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
      return { problem: error.message };
    }
  }
  for (const name of USUAL) {
    const program = await findProgram(name);
    if (program !== undefined) return `exec ${shellWord(program)}`;
  }
  return { problem: "no editor was found: name one in VISUAL or EDITOR" };
}
