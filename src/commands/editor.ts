import { join } from "node:path";
import { shellWord } from "../mcp/shell_word.ts";
import { PrivateFolder } from "../process/private_folder.ts";
import { findProgram, namedProgram, requireProgram } from "../process/program.ts";
import { runProgram } from "../process/run_program.ts";

/** What is edited, and until when. */
export interface EditOptions {
  /** The file's name, by which editors know what it is. */
  readonly name: string;
  /** Ends the editor. */
  readonly signal: AbortSignal;
}

/** What is left of a text, or why that is nothing new. */
export type EditedText = { readonly text: string } | { readonly problem: string };

/** Editors that are used where none is named. */
const USUAL = ["nano", "vi"];

/** Whether the person has named an editor by `VISUAL` or `EDITOR`. */
export function hasNamedEditor(): boolean {
  return namedEditor() !== undefined;
}

/**
 * Has a text edited at the terminal, in the editor that `VISUAL` or `EDITOR` names, or else in a usual
 * one.
 */
export async function editText(
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
    if (!success) return { problem: `the editor ended with code ${code}` };
    const after = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })
      .decode(await Deno.readFile(path));
    return after === text ? { problem: "the editor left it as it was" } : { text: after };
  } catch (error) {
    if (signal.aborted) return { problem: "there is nothing to decide any more" };
    if (error instanceof Deno.errors.NotFound) return { problem: "the editor left no file" };
    if (error instanceof TypeError) return { problem: "the editor left no UTF-8 text" };
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
