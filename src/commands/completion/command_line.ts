/** The words that can follow `ipybox`, as shells need them. All come from the commands themselves. */
import { type CommandEntry, HELP_OPTION, type OptionSpec } from "../command.ts";

/** The command line, for shells. */
export interface CommandLine {
  /** The options without a command. */
  readonly options: readonly OptionWords[];
  readonly commands: readonly CommandWords[];
}

/** The words that can follow a command's name. */
export interface CommandWords {
  readonly name: string;
  readonly summary: string;
  readonly options: readonly OptionWords[];
  /** The values of its first argument that are known beforehand. */
  readonly actions: readonly string[];
  /** Whether its arguments are files. */
  readonly takesFiles: boolean;
}

/** An option, for shells. */
export interface OptionWords {
  /** `--name`, and its letter with a hyphen. */
  readonly forms: readonly string[];
  readonly help: string;
  readonly isRepeatable: boolean;
  /** Its value; without it the option is a switch. */
  readonly value?: {
    readonly name: string;
    readonly choices: readonly string[];
    readonly files?: "file" | "folder";
  };
}

/** Reads the command line from the commands. */
export async function commandLineOf(
  commands: Readonly<Record<string, CommandEntry>>,
  options: Readonly<Record<string, OptionSpec>>,
): Promise<CommandLine> {
  const all = Object.entries(commands);
  const help: CommandWords = {
    name: "help",
    summary: "Show help for ipybox or a command",
    options: [],
    actions: all.map(([name]) => name),
    takesFiles: false,
  };
  const words = await Promise.all(all.map(async ([name, { summary, load }]) => {
    const { usage, options } = await load();
    return {
      name,
      summary,
      options: optionsOf({ ...options, help: HELP_OPTION }),
      ...argumentsOf(usage),
    };
  }));
  return { options: optionsOf(options), commands: [...words, help] };
}

function optionsOf(options: Readonly<Record<string, OptionSpec>>): OptionWords[] {
  return Object.entries(options).map((
    [name, { help, value, short, many = false, choices = [] }],
  ) => ({
    forms: [`--${name}`, ...(short === undefined ? [] : [`-${short}`])],
    help,
    isRepeatable: many,
    value: value === undefined ? undefined : { name: value, choices, files: filesIn(value) },
  }));
}

/** Whether a value is a file, by its name in the help. */
function filesIn(name: string): "file" | "folder" | undefined {
  if (/\b(?:FILE|PATH)\b/.test(name)) return "file";
  return /\bDIR\b/.test(name) ? "folder" : undefined;
}

/** The arguments in a command's usage: words in small letters are typed as they are. */
function argumentsOf(usage: string): Pick<CommandWords, "actions" | "takesFiles"> {
  const firsts = usage.split("\n").map((form) => form.split(" ", 1)[0] ?? "");
  const isFirst = (word: string, at: number): boolean => firsts.indexOf(word) === at;
  return {
    actions: firsts.filter(isFirst).flatMap((first) => /^\[?([a-z]+)\]?$/.exec(first)?.[1] ?? []),
    takesFiles: firsts.includes("FILE"),
  };
}
