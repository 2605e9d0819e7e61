/**
 * What a command of the command line is: its help, its options, its exit code.
 *
 * @module
 */
import { parseArgs, unicodeWidth } from "@std/cli";
import { USUAL_COLUMNS } from "./terminal/columns.ts";
import type { Logger } from "../base/log.ts";

/** The meaning of ipybox's exit codes. */
export const EXIT = {
  ok: 0,
  /** The code action, the tool or the server failed. */
  failed: 1,
  /** Bad usage: an option, an argument or a file of the user's is wrong. */
  usage: 2,
  /** This machine lacks something; the message says what and how to get it. */
  notReady: 3,
  /** The reader of stdout has exited, as shells report it. */
  stdoutClosed: 141,
} as const;

/** The signal that ends a command: the reason of `CommandIo.signal`. */
export class EndSignal extends DOMException {
  /** `exitCode` is what shells report for the signal. */
  constructor(readonly exitCode: number) {
    super("Interrupted", "AbortError");
  }
}

/** A command of `ipybox`. */
export interface Command {
  /** Its name on the command line. */
  readonly name: string;
  /** One line for the list of commands. */
  readonly summary: string;
  /** What follows the name in its usage line, such as `"NAME -- CMD ARGS…"`; lines are variants. */
  readonly usage: string;
  /** Its options beside `--help`. */
  readonly options: Readonly<Record<string, OptionSpec>>;
  /** What its help says about the arguments that were given with `--help`. */
  readonly helpAbout?: (args: readonly string[]) => Promise<string | undefined>;
  /** Examples and whatever else its help should say. */
  readonly notes: string;
  /** Runs it and resolves to the exit code. */
  run(args: readonly string[], io: CommandIo): Promise<number>;
}

/** An option of a command. */
export interface OptionSpec {
  /** One line for the help. */
  readonly help: string;
  /** The name of its value in the help. Without it the option is a switch. */
  readonly value?: string;
  /** A letter that means the same. */
  readonly short?: string;
  /** Whether it may be given more than once. */
  readonly many?: boolean;
}

/** What a command has of the outside world. */
export interface CommandIo {
  /** Writes to stdout, unchanged: results only. */
  out(text: string): void;
  /** Writes a line to stderr: everything else. */
  err(line: string): void;
  /** Writes to stderr, unchanged. */
  errText(text: string): void;
  /** Logs what a person waits for, warnings and errors to stderr. */
  readonly log: Logger;
  /** Logs everything to stderr. */
  readonly verboseLog: Logger;
  /** Whether a person can be asked: stdin and stderr are a terminal. */
  readonly interactive: boolean;
  /** Whether stdout is a terminal. */
  readonly stdoutIsTerminal: boolean;
  /** Whether stderr is a terminal. */
  readonly stderrIsTerminal: boolean;
  /** Whether stderr may carry colour. */
  readonly color: boolean;
  /** Aborts at the first Ctrl-C or SIGTERM. */
  readonly signal: AbortSignal & { readonly reason: EndSignal };
  /** Asks the person at the terminal and resolves to the line, or to `null` at its end. */
  ask(question: string, signal?: AbortSignal): Promise<string | null>;
  /** Has the person type a line for the code, and resolves to it, or to `null` at its end. */
  enter(line: CodeLine, signal?: AbortSignal): Promise<string | null>;
  /** Leaves the terminal to another program, such as an editor. For the caller that was just answered. */
  lend<T>(use: () => Promise<T>): Promise<T>;
  /**
   * Has what is typed come key by key and without echo, except for questions, until disposed of.
   */
  keys(onResume: () => void): KeyInput;
  /** Has Ctrl-C do this, and not end the command, until disposed of. */
  onInterrupt(act: () => void): Disposable;
}

/** A line that is typed for executed code. */
export interface CodeLine {
  /** Who asks, in words of ours. */
  readonly label: string;
  /** What the code says, safe to print on one row. */
  readonly words: string;
  /** Whether what is typed is not shown. */
  readonly isSecret: boolean;
}

/** What is typed at a terminal, key by key. */
export interface KeyInput extends Disposable {
  /** The next bytes, or `null` at the end of the terminal. Nothing is read ahead of that. */
  next(): Promise<Uint8Array | null>;
}

/** The command line was used wrongly. */
export class UsageError extends Error {
  override readonly name: string = "UsageError";
}

/** The reader of stdout has exited, as `head` does once it has its lines. */
export class StdoutClosedError extends Error {
  override readonly name: string = "StdoutClosedError";
}

/** A parsed command line. */
export class ParsedArgs {
  #values: Readonly<Record<string, unknown>>;

  constructor(
    readonly positional: readonly string[],
    readonly rest: readonly string[],
    values: Readonly<Record<string, unknown>>,
  ) {
    this.#values = values;
  }

  /** Whether a switch was given. */
  has(name: string): boolean {
    return this.#values[name] === true;
  }

  /** Whether an option was given, of whatever kind it is. */
  given(name: string): boolean {
    return this.has(name) || this.value(name) !== undefined || this.values(name).length > 0;
  }

  /** An option's value, or `undefined` when it was not given. */
  value(name: string): string | undefined {
    const value = this.#values[name];
    return typeof value === "string" ? value : undefined;
  }

  /** The values of an option that may be given more than once. */
  values(name: string): string[] {
    const value = this.#values[name];
    return Array.isArray(value) ? value.map(String) : [];
  }

  /** An option's value as a number above 0. */
  positiveNumber(name: string): number | undefined {
    const text = this.value(name);
    if (text === undefined) return undefined;
    const number = Number(text);
    if (!(number > 0 && Number.isFinite(number))) {
      throw new UsageError(`Option --${name} needs a number above 0: received "${text}"`);
    }
    return number;
  }

  /** An option's value, which is a number of seconds above 0, as milliseconds. */
  milliseconds(name: string): number | undefined {
    const seconds = this.positiveNumber(name);
    return seconds === undefined ? undefined : seconds * 1000;
  }
}

/** Parses the arguments of a command by its option list. */
export function parseCommandLine(
  command: Command,
  args: readonly string[],
  limits: { min?: number; max?: number } = {},
): ParsedArgs {
  const { min = 0, max = 0 } = limits;
  const specs = Object.entries(command.options);
  const valued = specs.filter(([, spec]) => spec.value !== undefined);
  const separator = args.indexOf("--");
  const own = separator === -1 ? args : args.slice(0, separator);
  const rest = separator === -1 ? [] : args.slice(separator + 1);
  const parsed = parseArgs(joinNegative(own, valued), {
    // Naming "_" keeps positional arguments that look like numbers as they were typed.
    string: ["_", ...valued.map(([name]) => name)],
    boolean: specs.filter(([, spec]) => spec.value === undefined).map(([name]) => name),
    // All are collected, so that an option given twice is seen.
    collect: valued.map(([name]) => name),
    alias: Object.fromEntries(
      specs.flatMap(([name, spec]) => spec.short === undefined ? [] : [[name, spec.short]]),
    ),
    unknown: (argument, key) => {
      if (key !== undefined) throw new UsageError(`Unknown option ${argument.split("=")[0]}`);
      return true;
    },
  });
  const values: Record<string, unknown> = {};
  for (const [name, spec] of specs) {
    const given: unknown = parsed[name];
    if (spec.value === undefined) {
      values[name] = given === true;
      continue;
    }
    const list = Array.isArray(given) ? given.map(String) : [];
    if (list.includes("")) throw new UsageError(`Option --${name} needs a value: ${spec.value}`);
    if (list.length > 1 && !spec.many) throw new UsageError(`Option --${name} was given twice`);
    values[name] = spec.many ? list : list[0];
  }
  const positional = parsed._.map(String);
  if (positional.length < min) {
    const forms = command.usage.split("\n").map((form) => `ipybox ${command.name} ${form}`);
    throw new UsageError(`Missing argument: use ${forms.join("\n  or ")}`);
  }
  if (positional.length > max) {
    throw new UsageError(`Unexpected argument "${positional[max]}"`);
  }
  return new ParsedArgs(positional, rest, values);
}

/** Joins an option and a value such as `-1`, which would else be taken for an option. */
function joinNegative(
  args: readonly string[],
  valued: readonly (readonly [string, OptionSpec])[],
): string[] {
  const joined: string[] = [];
  for (const arg of args) {
    const last = joined.at(-1);
    const takesValue = valued.some(([name]) => last === `--${name}`);
    if (takesValue && /^-\.?\d/.test(arg)) joined[joined.length - 1] = `${last}=${arg}`;
    else joined.push(arg);
  }
  return joined;
}

/** The help text of a command. */
export function helpText(command: Command, columns?: number): string {
  const usage = command.usage.split("\n")
    .map((line, index) =>
      `${index === 0 ? "Usage:" : "      "} ipybox ${command.name} ${line}`.trimEnd()
    );
  const options = table([
    ...Object.entries(command.options).map(([name, spec]): [string, string] => [
      `${spec.short === undefined ? "    " : `-${spec.short}, `}--${name}` +
      (spec.value === undefined ? "" : ` ${spec.value}`),
      spec.help,
    ]),
    ["-h, --help", "Show this help"],
  ], columns);
  return [
    command.summary + ".",
    "",
    ...usage,
    "",
    "Options:",
    ...options,
    ...(command.notes === "" ? [] : ["", command.notes]),
    "",
  ].join("\n");
}

/** Lays out rows of a term and its text, which stands below it where there is no room beside. */
export function table(
  rows: readonly (readonly [string, string])[],
  columns: number = USUAL_COLUMNS,
): string[] {
  const width = Math.max(...rows.map(([term]) => unicodeWidth(term)));
  if (columns < USUAL_COLUMNS && columns - width - 4 < LEAST_TEXT) {
    return rows.flatMap(([term, text]) => [
      `  ${term}`,
      ...wrap(text, columns - 6).map((line) => `      ${line}`),
    ]);
  }
  const room = columns === Infinity ? columns : Math.min(columns, USUAL_COLUMNS);
  return rows.flatMap(([term, text]) => {
    const indent = " ".repeat(width + 4);
    return wrap(text, room - indent.length).map((line, index) =>
      index === 0 ? `  ${term}${" ".repeat(width - unicodeWidth(term))}  ${line}` : indent + line
    );
  });
}

/** The fewest columns that text is wrapped to. */
const LEAST_TEXT = 30;

function wrap(text: string, width: number): string[] {
  const lines = [""];
  for (const word of text.split(" ")) {
    const line = lines.at(-1) ?? "";
    if (line === "") lines[lines.length - 1] = word;
    else if (unicodeWidth(line) + 1 + unicodeWidth(word) <= Math.max(width, LEAST_TEXT)) {
      lines[lines.length - 1] = `${line} ${word}`;
    } else lines.push(word);
  }
  return lines;
}
