/** A word of a command, after quotes were removed. */
export interface ShellWord {
  /** The word, as far as it is known. */
  readonly text: string;
  /** Whether the shell makes something else of it when it runs: any number of words, with any text. */
  readonly dynamic: boolean;
}

/** One command of a shell line, or a file that the line redirects to or from. */
export interface ShellCommand {
  /** Its name and arguments; `>` or `<` and the file for a redirection. Empty for assignments. */
  readonly words: readonly ShellWord[];
  /** Whether it is a redirection. */
  readonly redirection: boolean;
  /** Whether variables are set for it, which may make it do other things. */
  readonly assigned: boolean;
  /** Whether it only starts another command of the list, so that it needs no permission of its own. */
  readonly wrapper: boolean;
}

/** A shell line that cannot be taken apart for sure. */
export class ShellSyntaxError extends Error {
  override readonly name: string = "ShellSyntaxError";
}

/** Writes a command for people: what is not known before it runs is an ellipsis. */
export function describeCommand(command: ShellCommand): string {
  const words = command.words.map(({ text, dynamic }) =>
    dynamic ? "…" : /^[\w@%+=:,./<>-]+$/.test(text) ? text : JSON.stringify(text)
  );
  return `${command.assigned ? "VAR=… " : ""}${words.join(" ")}`.trim();
}
