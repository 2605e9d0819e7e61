import { parseArgs } from "node:util";
import { unicodeWidth } from "@std/cli";
import { outputColumns, USUAL_COLUMNS } from "./terminal/columns.ts";
import type { Logger } from "../base/log.ts";
import { isMisspelt } from "../base/nearest.ts";
import { shellWord } from "../base/shell_word.ts";

/** The meaning of ipybox's exit codes. */
export const EXIT = {
  ok: 0,
  /** The code action, the tool or the server failed. */
  failed: 1,
  /** Wrong usage: an option, an argument or a file of the user is invalid. */
  usage: 2,
  /** Something is missing on this machine; the message says what, and how to get it. */
  notReady: 3,
  /** The reader of stdout has exited, as shells report it. */
  stdoutClosed: 141,
} as const;

/** The signal that ends a command: the reason of `CommandIo.signal`. */
export class EndSignal extends DOMException {
  /** `exitCode` is the one that shells report for the signal. */
  constructor(readonly exitCode: number) {
    super("Interrupted", "AbortError");
  }
}

export interface Command {
  /** The rest of its usage line after the name, such as `"NAME -- CMD ARGS…"`; each line is a variant. */
  readonly usage: string;
  /** Its options besides `--help`. */
  readonly options: Readonly<Record<string, OptionSpec>>;
  /** How many arguments it takes besides options; by default none. */
  readonly positional?: { readonly min?: number; readonly max: number };
  /** Which arguments go after `--`, such as `"the server's command goes"`. */
  readonly rest?: string;
  /** Additional help about the arguments that were given with `--help`. */
  readonly helpAbout?: (parsed: ParsedArgs) => Promise<string | undefined>;
  /** The rest of its help, with examples. */
  readonly notes: string;
  run(parsed: ParsedArgs, io: CommandIo): Promise<number>;
}

export interface OptionSpec {
  readonly help: string;
  /** The name of its value in the help. Without it the option is a switch. */
  readonly value?: string;
  /** Its values for shell completion: all, or those that are not files. */
  readonly choices?: readonly string[];
  readonly short?: string;
  readonly many?: boolean;
}

/** An entry in the list of all commands. The command is imported when called. */
export interface CommandEntry {
  readonly summary: string;
  readonly load: () => Promise<Command>;
}

/** The option of every command. */
export const HELP_OPTION: OptionSpec = { short: "h", help: "Show this help" };

/** A command's access to the outside world. */
export interface CommandIo {
  /** Writes to stdout, unchanged: results only. */
  out(text: string): void;
  /** Writes a line to stderr: everything else. */
  err(line: string): void;
  /** Writes to stderr, unchanged. */
  errText(text: string): void;
  /** Logs progress, warnings and errors to stderr. */
  readonly log: Logger;
  /** Logs everything to stderr. */
  readonly verboseLog: Logger;
  /** Whether a person can be asked: stdin and stderr are a terminal. */
  readonly interactive: boolean;
  readonly stdoutIsTerminal: boolean;
  readonly stderrIsTerminal: boolean;
  /** Whether stderr may contain colors. */
  readonly color: boolean;
  /** Whether text for the terminal may contain links to files. */
  readonly links: boolean;
  /** Aborts at the first Ctrl-C or SIGTERM. */
  readonly signal: AbortSignal & { readonly reason: EndSignal };
  /** Asks the person at the terminal and resolves to the line, or to `null` at the end of input. */
  ask(question: string, signal?: AbortSignal): Promise<string | null>;
  /** Lets the person type a line for the code, and resolves to it, or to `null` at the end of input. */
  enter(line: CodeLine, signal?: AbortSignal): Promise<string | null>;
  /** Lends the terminal to another program, such as an editor. Only for the caller that was just answered. */
  lend<T>(use: () => Promise<T>): Promise<T>;
  /** Delivers input key by key and without echo, except during questions, until disposed. */
  keys(onResume: () => void): KeyInput;
  /** Makes Ctrl-C call this instead of ending the command, until disposed. */
  onInterrupt(act: () => void): Disposable;
}

/** A line that is typed for executed code. */
export interface CodeLine {
  /** The asker, in ipybox's words. */
  readonly label: string;
  /** The code's prompt, safe to print on one row. */
  readonly words: string;
  readonly isSecret: boolean;
}

/** The keys typed at a terminal, one by one. */
export interface KeyInput extends Disposable {
  /** The next bytes, or `null` when the terminal is gone. Nothing is read ahead. */
  next(): Promise<Uint8Array | null>;
}

export class UsageError extends Error {
  override readonly name: string = "UsageError";
}

/** The reader of stdout has exited, as `head` does once it has enough lines. */
export class StdoutClosedError extends Error {
  override readonly name: string = "StdoutClosedError";
}

export class ParsedArgs {
  /** The options that were given, with their values. */
  readonly #given: ReadonlyMap<string, readonly string[]>;

  constructor(
    readonly positional: readonly string[],
    /** The arguments after `--`. */
    readonly rest: readonly string[],
    /** All of them, as they were typed. */
    readonly all: readonly string[],
    given: ReadonlyMap<string, readonly string[]>,
  ) {
    this.#given = given;
  }

  /** Whether an option was given. */
  has(name: string): boolean {
    return this.#given.has(name);
  }

  /** Throws if any of the other options was given, too. */
  refuseBeside(name: string, others: readonly string[], fix = ""): void {
    const other = others.find((other) => this.has(other));
    if (other === undefined) return;
    throw new UsageError(`Options --${name} and --${other} cannot be combined${fix}`);
  }

  value(name: string): string | undefined {
    return this.#given.get(name)?.[0];
  }

  values(name: string): readonly string[] {
    return this.#given.get(name) ?? [];
  }

  choice<T extends string>(name: string, choices: readonly T[]): T | undefined {
    const value = this.value(name);
    const chosen = choices.find((choice) => choice === value);
    if (chosen !== undefined || value === undefined) return chosen;
    const known = [choices.slice(0, -1).join(", "), choices.at(-1)].filter(Boolean).join(" or ");
    throw new UsageError(`Option --${name} takes ${known}: received "${value}"`);
  }

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

export function parseCommandLine(
  name: string,
  command: Command,
  args: readonly string[],
): ParsedArgs {
  const { min = 0, max = 0 } = command.positional ?? {};
  const separator = args.indexOf("--");
  const own = separator === -1 ? [...args] : args.slice(0, separator);
  const rest = separator === -1 ? [] : args.slice(separator + 1);
  const specs = Object.entries(command.options).map(([name, { value, short }]) => {
    const type = value === undefined ? "boolean" as const : "string" as const;
    return [name, { type, ...(short === undefined ? {} : { short }) }] as const;
  });
  const { tokens } = parseArgs({
    args: own,
    options: Object.fromEntries(specs),
    strict: false, // its errors are less helpful
    tokens: true,
  });
  const positional: string[] = [];
  const given = new Map<string, string[]>();
  for (const token of tokens) {
    if (token.kind === "option") {
      const spec = Object.hasOwn(command.options, token.name)
        ? command.options[token.name]
        : undefined;
      if (spec === undefined) throw unknownOption(token.rawName, Object.keys(command.options));
      const before = given.get(token.name) ?? [];
      given.set(token.name, [...before, ...valueOf(token, spec, before.length > 0)]);
    } else if (token.kind === "positional") {
      if (positional.push(token.value) <= max) continue;
      // Before checking later options, which may belong to a command without its `--`.
      const message = `Unexpected argument "${token.value}"`;
      if (command.rest === undefined || separator !== -1) throw new UsageError(message);
      const line = ["ipybox", name, ...own.slice(0, token.index), "--", ...own.slice(token.index)];
      throw new UsageError(
        `${message}: ${command.rest} after "--": ${line.map(shellWord).join(" ")}`,
      );
    }
  }
  if (positional.length < min) {
    const forms = command.usage.split("\n").map((form) => `ipybox ${name} ${form}`);
    throw new UsageError(`Missing argument: use ${forms.join("\n  or ")}`);
  }
  return new ParsedArgs(positional, rest, args, given);
}

interface OptionToken {
  readonly name: string;
  readonly value: string | undefined;
  /** Whether the value is part of the option's argument. */
  readonly inlineValue: boolean | undefined;
}

/** The value of an option, if it takes one. */
function valueOf(
  { name, value = "", inlineValue = false }: OptionToken,
  spec: OptionSpec,
  isRepeated: boolean,
): string[] {
  if (spec.value === undefined) {
    if (inlineValue) throw new UsageError(`Option --${name} takes no value`);
    return [];
  }
  const isOption = !inlineValue && /^-+[^-.\d]/.test(value);
  if (value === "" || isOption) {
    throw new UsageError(`Option --${name} needs a value: ${spec.value}`);
  }
  if (isRepeated && !spec.many) throw new UsageError(`Option --${name} was given twice`);
  return [value];
}

/** Creates the error for an unknown option, which suggests a known one that may be meant. */
export function unknownOption(argument: string, known: readonly string[]): UsageError {
  const option = argument.split("=")[0] ?? "";
  const near = [...known, "help"].find((name) => isMisspelt(option, [name]));
  const hint = near === undefined ? "" : `; did you mean "--${near}"?`;
  return new UsageError(`Unknown option ${option}${hint}`);
}

export function helpText(
  name: string,
  summary: string,
  command: Command,
  columns: number,
): string {
  const usage = command.usage.split("\n")
    .map((line, index) => `${index === 0 ? "Usage:" : "      "} ipybox ${name} ${line}`.trimEnd());
  const options = table([
    ...Object.entries(command.options).map(([name, spec]): [string, string] => [
      `${spec.short === undefined ? "    " : `-${spec.short}, `}--${name}` +
      (spec.value === undefined ? "" : ` ${spec.value}`),
      spec.help,
    ]),
    [`-${HELP_OPTION.short}, --help`, HELP_OPTION.help],
  ], columns);
  return narrowed([
    summary + ".",
    "",
    ...usage,
    "",
    "Options:",
    ...options,
    ...(command.notes === "" ? [] : ["", command.notes]),
    "",
  ], columns);
}

/** Joins the lines of a help, and wraps its paragraphs again if the terminal is narrow. */
export function narrowed(lines: readonly string[], columns: number): string {
  const text = lines.join("\n");
  if (columns >= USUAL_COLUMNS) return text;
  // Tables and examples are indented: they stay as they are.
  return text.replaceAll(/^(\S.*)\n(?=\S)/gm, "$1 ")
    .replaceAll(/^\S.*$/gm, (paragraph) => wrap(paragraph, columns).join("\n"));
}

export async function agrees(io: CommandIo, question: string): Promise<boolean> {
  const answer = await io.ask(`${question} [y/N] `);
  return /^y(es)?$/i.test(answer?.trim() ?? "");
}

/** Lays out rows of a term and its text, which goes below the term if there is no room beside it. */
export function table(
  rows: readonly (readonly [string, string])[],
  columns: number = USUAL_COLUMNS,
): string[] {
  const width = Math.max(...rows.map(([term]) => unicodeWidth(term)));
  if (columns < USUAL_COLUMNS && columns - width - 4 < LEAST_TEXT) {
    return rows.flatMap(([term, text]) => [
      `  ${term}`,
      ...wrap(text, columns - 10).map((line) => `          ${line}`),
    ]);
  }
  return rows.flatMap(([term, text]) => {
    const indent = " ".repeat(width + 4);
    return wrap(text, columns - indent.length).map((line, index) =>
      index === 0 ? `  ${term}${" ".repeat(width - unicodeWidth(term))}  ${line}` : indent + line
    );
  });
}

/** Prints rows to stdout, each as one line if another program reads them, such as `grep`. */
export function printTable(rows: readonly (readonly [string, string])[], io: CommandIo): void {
  io.out(table(rows, outputColumns(io) ?? Infinity).join("\n") + "\n");
}

/** The fewest columns that text is wrapped to. */
const LEAST_TEXT = 30;

/** Wraps text between words. All lines keep its indentation, which has a meaning in code. */
export function wrap(text: string, width: number): string[] {
  const [indent = ""] = /^ */.exec(text) ?? [];
  const [first = "", ...words] = text.slice(indent.length).split(" ");
  const lines = [indent + first];
  for (const word of words) {
    const line = `${lines.at(-1)} ${word}`;
    if (unicodeWidth(line) <= Math.max(width, LEAST_TEXT)) lines[lines.length - 1] = line;
    else lines.push(indent + word);
  }
  return lines;
}
