/**
 * Programs that start other programs: what they start is what a policy is about.
 *
 * @module
 */
import { type ShellCommand, ShellSyntaxError, type ShellWord } from "./shell_command.ts";

/** Takes a script for a shell apart. */
export type ScriptParser = (script: string) => ShellCommand[];

/** What a wrapper starts. */
interface Started {
  readonly words: readonly ShellWord[];
  /** Whether its surroundings are changed, as by variables. */
  readonly assigned?: boolean;
}

/** A wrapper's options, by how many words follow. */
interface Wrapper {
  /** Options that stand alone. */
  readonly flags: RegExp;
  /** Options whose value is the next word. */
  readonly valued: RegExp;
  /** How many words come before the command. */
  readonly operands?: number;
  /** Whether `NAME=value` may come before the command. */
  readonly assignments?: boolean;
  /** Whether it gives more rights, and so needs permission itself. */
  readonly raises?: boolean;
}

const NOTHING = /^$/;

const WRAPPERS: ReadonlyMap<string, Wrapper> = new Map<string, Wrapper>([
  ["env", {
    flags: /^(-|-i|--ignore-environment|--unset=.*|-u.+)$/,
    valued: /^(-u|--unset)$/,
    assignments: true,
  }],
  ["sudo", {
    flags:
      /^(-[AbEHknPS]+|--non-interactive|--preserve-env(=.*)?|--set-home|--user=.*|--group=.*)$/,
    valued: /^(-u|-g|--user|--group)$/,
    assignments: true,
    raises: true,
  }],
  ["doas", { flags: /^-n$/, valued: /^-u$/, raises: true }],
  ["nohup", { flags: NOTHING, valued: NOTHING }],
  ["setsid", { flags: /^(-[cfw]+|--ctty|--fork|--wait)$/, valued: NOTHING }],
  ["nice", { flags: /^(-n?-?\d+|--adjustment=-?\d+)$/, valued: /^(-n|--adjustment)$/ }],
  ["ionice", { flags: /^(-t|-c\d|-n\d)$/, valued: /^-[cn]$/ }],
  ["stdbuf", { flags: /^(-[ioe].+|--(input|output|error)=.*)$/, valued: /^-[ioe]$/ }],
  ["timeout", {
    flags: /^(-v|--verbose|--foreground|--preserve-status|-[ks].+|--(signal|kill-after)=.*)$/,
    valued: /^(-[ks]|--signal|--kill-after)$/,
    operands: 1,
  }],
  ["time", { flags: /^-p$/, valued: NOTHING }],
  ["command", { flags: /^-p$/, valued: NOTHING }],
  ["builtin", { flags: NOTHING, valued: NOTHING }],
  ["exec", { flags: /^-[cl]+$/, valued: /^-a$/ }],
  ["xargs", {
    flags:
      /^(-[0rtpx]+|-[nLPIdEsa].+|--null|--no-run-if-empty|--verbose|--exit|--(max-args|max-lines|max-procs|max-chars|delimiter|arg-file|replace)=.*)$/,
    valued: /^(-[nLPIdEsa]|--(max-args|max-lines|max-procs|max-chars|delimiter|arg-file))$/,
  }],
]);

const SHELLS: ReadonlySet<string> = new Set(["sh", "bash", "dash", "ash"]);

/** How many wrappers may stand before a command. */
const MAX_WRAPPERS = 16;

/** Where a system keeps its programs: a name there means the same as the name alone. */
const SYSTEM_FOLDER = /^\/(usr\/(local\/)?)?s?bin\/(?=[^/]+$)/;

/**
 * Gives a command and all commands that it starts.
 *
 * @param command The command.
 * @param parse Takes a script apart.
 * @param depth How many wrappers stand before it.
 * @returns The command, its name without the folder where that is the system's, and what it starts.
 * @throws {ShellSyntaxError} What it starts cannot be told for sure.
 */
export function unwrapCommand(
  command: ShellCommand,
  parse: ScriptParser,
  depth = 0,
): ShellCommand[] {
  if (depth > MAX_WRAPPERS) throw new ShellSyntaxError("it nests too deeply");
  const [first, ...rest] = command.words;
  if (first === undefined || command.redirection) return [command];
  if (first.dynamic) {
    throw new ShellSyntaxError("the name of a command is only known when it runs");
  }
  const name = first.text.replace(SYSTEM_FOLDER, "");
  const named: ShellCommand = { ...command, words: [{ text: name, dynamic: false }, ...rest] };
  if (SHELLS.has(name)) {
    const script = scriptOf(rest);
    return script === undefined
      ? [named]
      : [{ ...named, wrapper: true }, ...inherit(command, parse(script))];
  }
  if (name === "eval") {
    return [{ ...named, wrapper: true }, ...inherit(command, parse(joined(operandsOf(rest))))];
  }
  if (name === "trap" && operandsOf(rest).length > 1) {
    const [action, ...signals] = operandsOf(rest);
    if (action === undefined || signals.some(({ dynamic }) => dynamic)) throw unclear(name);
    return [named, ...inherit(command, parse(joined([action])))];
  }
  if (evaluates(name, rest)) throw unclear(name);
  if (name === "find") {
    const started = startedByFind(rest).map((words) => ({ ...command, words }));
    return [named, ...started.flatMap((inner) => unwrapCommand(inner, parse, depth + 1))];
  }
  const started = startedBy(name, rest);
  if (started === undefined) return [named];
  const inner: ShellCommand = {
    ...command,
    words: started.words,
    assigned: command.assigned || started.assigned === true,
  };
  const raises = WRAPPERS.get(name)?.raises === true;
  return [{ ...named, wrapper: !raises }, ...unwrapCommand(inner, parse, depth + 1)];
}

/** What comes after the `--` that ends options, if there is one. */
function operandsOf(args: readonly ShellWord[]): readonly ShellWord[] {
  return args[0]?.text === "--" && !args[0].dynamic ? args.slice(1) : args;
}

/** Builtins that run what is in their arguments, or change what later commands mean. */
const RUNNING: ReadonlySet<string> = new Set(
  ["alias", "bind", "compgen", "complete", "enable", "fc", "let"],
);
/** Builtins that take names of variables. */
const NAMING: ReadonlySet<string> = new Set([
  ...["[", "declare", "export", "getopts", "local", "mapfile", "printf", "read", "readarray"],
  ...["readonly", "test", "typeset", "unset", "wait"],
]);
/**
 * A name with a subscript, in which bash runs command substitutions; also behind its option. A number
 * is no name, but not worth a pattern that could backtrack.
 */
const SUBSCRIPT = /^-?\w+\[/;
/** Options of builtins that make numbers of texts, by working them out, or that name or are followed by a command. */
const RUNNING_OPTIONS: ReadonlyMap<string, RegExp> = new Map([
  ...["declare", "local", "readonly", "typeset"].map((name) => [name, /^[-+]\w*i/] as const),
  ...["mapfile", "readarray"].map((name) => [name, /^-\w*C/] as const),
  ["jobs", /^-\w*x/],
]);

/** Whether bash may run what is in an argument of a builtin. */
function evaluates(name: string, args: readonly ShellWord[]): boolean {
  if (RUNNING.has(name)) return true;
  const option = RUNNING_OPTIONS.get(name);
  if (!NAMING.has(name) && option === undefined) return false;
  // What is only known at run time may be a subscript, or the option before one, or several words.
  const unknown = name === "printf" ? optionsOfPrintf(args) : args;
  return unknown.some(({ dynamic }) => dynamic) ||
    args.some(({ text }) =>
      NAMING.has(name) && SUBSCRIPT.test(text) || option?.test(text) === true
    );
}

/** The words up to printf's format: those after it are only printed. */
function optionsOfPrintf(args: readonly ShellWord[]): readonly ShellWord[] {
  let at = 0;
  for (; at < args.length; at++) {
    const word = args[at];
    if (word === undefined || word.dynamic || !word.text.startsWith("-v")) break;
    if (word.text === "-v") at++;
  }
  if (args[at]?.text === "--" && args[at]?.dynamic === false) return args.slice(0, at);
  return args.slice(0, at + 1);
}

function inherit(outer: ShellCommand, commands: readonly ShellCommand[]): ShellCommand[] {
  return commands.map((inner) => ({ ...inner, assigned: inner.assigned || outer.assigned }));
}

/** What a wrapper starts, or `undefined` where it is none or starts nothing. */
function startedBy(name: string, args: readonly ShellWord[]): Started | undefined {
  const wrapper = WRAPPERS.get(name);
  if (wrapper === undefined) return undefined;
  if (name === "command" && /^-[vV]$/.test(args[0]?.text ?? "")) return undefined;
  let at = 0;
  let assigned = false;
  let placeholder: string | undefined;
  let appends = false;
  for (; at < args.length; at++) {
    const word = args[at];
    if (word === undefined || (!word.dynamic && !word.text.startsWith("-"))) break;
    if (word.dynamic) throw unclear(name);
    const { text } = word;
    if (text === "--") {
      at++;
      break;
    }
    if (name === "xargs" && /^(-[nL]|--max-(args|lines))/.test(text)) appends = true;
    if (wrapper.valued.test(text)) {
      const value = args[++at];
      if (value === undefined || value.dynamic) throw unclear(name);
      if (name === "xargs" && text === "-I") placeholder = value.text;
    } else if (!wrapper.flags.test(text)) throw unclear(name);
    else if (name === "xargs" && /^(-I|--replace=)/.test(text)) {
      placeholder = text.replace(/^(-I|--replace=)/, "");
    }
  }
  for (; wrapper.assignments && /^[^=]+=/.test(args[at]?.text ?? ""); at++) {
    if (args[at]?.dynamic) throw unclear(name); // it may be several words
    assigned = true;
  }
  for (let operand = 0; operand < (wrapper.operands ?? 0); operand++) {
    if (args[at] === undefined || args[at]?.dynamic) throw unclear(name);
    at++;
  }
  const words = args.slice(at);
  if (words.length === 0) return undefined;
  if (words[0]?.dynamic) throw unclear(name);
  if (name !== "xargs") return { words, assigned };
  // The last of the two options counts: the placeholder may mean nothing.
  if (placeholder !== undefined && appends) throw unclear(name);
  return {
    words: placeholder === undefined
      ? [...words, { text: "", dynamic: true }]
      : words.map((word) => filledIn(word, placeholder)),
  };
}

function filledIn(word: ShellWord, placeholder: string): ShellWord {
  return word.text.includes(placeholder) ? { text: word.text, dynamic: true } : word;
}

/** The script of `sh -c`, or `undefined` for a shell that runs a file or its input. */
function scriptOf(args: readonly ShellWord[]): string | undefined {
  for (const [index, { text, dynamic }] of args.entries()) {
    if (dynamic) throw unclear("sh");
    if (/^-[eufx]*c[eufx]*$/.test(text)) {
      const script = args[index + 1];
      if (script === undefined || script.dynamic || /^[-+]/.test(script.text)) throw unclear("sh");
      return script.text;
    }
    if (/^-\w*c/.test(text)) throw unclear("sh");
    if (!/^[-+][eufx]+$/.test(text)) return laterScript(args.slice(index));
  }
  return undefined;
}

/** A shell's other options are not known here: a script after them cannot be told for sure. */
function laterScript(args: readonly ShellWord[]): undefined {
  if (/^[-+]/.test(args[0]?.text ?? "") && args.some(({ text }) => /^-\w*c/.test(text))) {
    throw unclear("sh");
  }
}

function startedByFind(args: readonly ShellWord[]): ShellWord[][] {
  // What is only known at run time may be `-exec`, or end one.
  if (args.some(({ dynamic }) => dynamic)) throw unclear("find");
  const started: ShellWord[][] = [];
  let current: ShellWord[] | undefined;
  let confirms = false;
  for (const [index, word] of args.entries()) {
    const { text } = word;
    if (current === undefined) {
      if (!/^-(exec|execdir|ok|okdir)$/.test(text)) continue;
      confirms = text.startsWith("-ok");
      started.push(current = []);
    } else if (text === ";") current = undefined;
    else if (text === "+") {
      // elsewhere it is an argument for some programs
      if (confirms || args[index - 1]?.text !== "{}") throw unclear("find");
      current = undefined;
    } else current.push(filledIn(word, "{}"));
  }
  if (current !== undefined) throw unclear("find");
  return started;
}

function joined(words: readonly ShellWord[]): string {
  if (words.some(({ dynamic }) => dynamic)) throw unclear("eval");
  return words.map(({ text }) => text).join(" ");
}

function unclear(name: string): ShellSyntaxError {
  return new ShellSyntaxError(`what ${name} runs cannot be told for sure`);
}
