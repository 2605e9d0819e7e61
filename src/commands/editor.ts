import { join } from "node:path";
import { PrivateFolder } from "../process/private_folder.ts";
import { namedProgram } from "../process/program.ts";
import { runProgram } from "../process/run_program.ts";

/** What is edited, and until when. */
export interface EditOptions {
  /** The file's name, by which editors know what it is. */
  readonly name: string;
  /** Ends the editor. */
  readonly signal: AbortSignal;
}

/**
 * The editor that the person uses, as `VISUAL` or `EDITOR` says.
 *
 * @returns Its command, or `undefined` where none is set.
 */
export function editorCommand(): string | undefined {
  return Deno.env.get("VISUAL") || Deno.env.get("EDITOR") || undefined;
}

/**
 * Has a text edited in the person's editor, at the terminal.
 *
 * @param command The editor's command.
 * @param text The text.
 * @param options The file's name, and what ends the editor.
 * @returns The text as it was left, or why there is none.
 */
export async function editText(
  command: string,
  text: string,
  options: EditOptions,
): Promise<{ readonly text: string } | { readonly problem: string }> {
  await using folder = await PrivateFolder.create(); // nobody else's to read
  const path = join(folder.path, options.name);
  await Deno.writeTextFile(path, text);
  const { success, code } = await runProgram(namedProgram("/bin/sh"), {
    // An editor's command may have arguments. Stdout is for results.
    args: ["-c", `${command} "$1" >&2`, "sh", path],
    cwd: folder.path,
    atTerminal: true,
    signal: options.signal,
  });
  if (!success) return { problem: `the editor ended with code ${code}` };
  return { text: await Deno.readTextFile(path) };
}
