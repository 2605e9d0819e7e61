/**
 * Reads texts for a shell. Only a single simple command is understood word by word; everything else
 * that shells support is left to a person.
 *
 * @module
 */
import { type Glob, globItems, type Match, matchGlob } from "./match.ts";

export type ShellText = SimpleCommand | OtherText;

/** A command whose words are known exactly. */
interface SimpleCommand {
  readonly type: "simple";
  /** Its name and arguments, without quotes. */
  readonly words: readonly string[];
  /** Whether it runs a program in its arguments, as `sudo` and `sh -c` do. */
  readonly starts: boolean;
  /** Whether no word contains quotes or backslashes. */
  readonly plain: boolean;
  /** Every word in the text, including those in quotes. */
  readonly mentioned: readonly string[];
}

/** Anything else. */
interface OtherText {
  readonly type: "other";
  /** The reason why it is more than a simple command, as in "it has a |". */
  readonly reason: string;
  /** Every word in the text, wherever it is. */
  readonly mentioned: readonly string[];
}

/** The longest text to read, and the most words in it. */
const MAX_LENGTH = 64 * 1024;
const MAX_WORDS = 10_000;
/** Folders of system programs, which a rule need not name. */
const SYSTEM_FOLDER = /^\/(usr\/(local\/)?)?s?bin\/(?=[^/]+$)/;
/** Characters that every shell takes literally. Some shells treat certain non-ASCII letters as spaces. */
const PLAIN = /[\w@%+=:,./-]+/y;
/** Escapes that mean the same in all shells, unlike a backslash before a letter. */
const ESCAPED = /\\[ -/:-@[-`{-~]/y;
const SINGLE_QUOTED = /'[^']*'/y;
const DOUBLE_QUOTED = /"(?:[^"\\$`]|\\["\\$`])*"/y;
const BLANKS = /[ \t]+/y;

export function readShell(text: string): ShellText {
  const mentioned = wordsIn(text);
  const other = (reason: string): OtherText => ({ type: "other", reason, mentioned });
  if (text.length > MAX_LENGTH) return other(`it is longer than ${MAX_LENGTH} characters`);
  const line = text.replace(/^[ \t\n]+/, "").replace(/(?<![ \t\n])[ \t\n]+$/, "");
  const found = splitWords(line);
  if (typeof found === "string") return other(found);
  if (found.length > MAX_WORDS) return other(`it has more than ${MAX_WORDS} words`);
  const [first, ...rest] = found;
  if (first === undefined) return other("it has no command");
  const name = first.replace(SYSTEM_FOLDER, "");
  if (name.includes("=")) return other("it sets a variable");
  if (SHELL_KEYWORDS.has(name)) return other(`it starts with ${name}`);
  if (evaluates(name, rest)) return other(`${name} may run what is in its arguments`);
  const words = [name, ...rest];
  const plain = !/['"\\]/.test(line);
  return { type: "simple", words, starts: startsPrograms(name), plain, mentioned };
}

/** A text for something other than a shell with a known grammar. */
export function otherText(text: string, reason: string): OtherText {
  return { type: "other", reason, mentioned: wordsIn(text) };
}

/** The words of a simple command, or why the text is not one. */
function splitWords(line: string): string[] | string {
  const words: string[] = [];
  let word: string | undefined;
  for (let at = 0; at < line.length;) {
    const take = (pattern: RegExp): string | undefined => {
      pattern.lastIndex = at;
      return pattern.exec(line)?.[0];
    };
    const blanks = take(BLANKS);
    if (blanks !== undefined) {
      if (word !== undefined) words.push(word);
      word = undefined;
      at += blanks.length;
      continue;
    }
    const piece = take(PLAIN) ?? take(ESCAPED) ?? take(SINGLE_QUOTED) ?? take(DOUBLE_QUOTED);
    if (piece === undefined) return describePlace(line[at] ?? "");
    // deno-lint-ignore no-control-regex -- control characters are what this is about
    if (/[\x00-\x1f\x7f]/.test(piece)) return "it has a line break or control character in quotes";
    // zsh replaces =NAME by the path of a program
    if (word === undefined && piece.startsWith("=")) return "it has a word that starts with =";
    // fish has escapes there
    if (/^'.*?\\(\\|'$)/.test(piece)) return "it has a backslash before a backslash or a quote";
    word = (word ?? "") + meaningOf(piece);
    at += piece.length;
  }
  if (word !== undefined) words.push(word);
  return words;
}

function meaningOf(piece: string): string {
  if (piece.startsWith("'")) return piece.slice(1, -1);
  if (piece.startsWith('"')) return piece.slice(1, -1).replace(/\\(.)/g, "$1");
  return piece.startsWith("\\") ? piece.slice(1) : piece;
}

function describePlace(character: string): string {
  if (character === "\n") return "it has more than one line";
  if (character === "'" || character === '"') {
    return "it has an unclosed quote, or an expansion in double quotes";
  }
  return /[!-~]/.test(character) ? `it has a ${character}` : "it has an unusual character";
}

/** Every word in a text, regardless of grammar: denying `rm` also denies `sh -c 'xargs r\m'`. None if too many. */
function wordsIn(text: string): string[] {
  if (text.length > MAX_LENGTH) return [];
  const words = text.replaceAll("\\\n", "").replace(/['"\\]+/g, "")
    .split(/[\s;&|()<>{}[\]$`!,*?~#=]+/)
    .filter((word) => word !== "");
  return words.length > MAX_WORDS ? [] : words;
}

/**
 * Whether a rule with this pattern may allow a text, which must be a simple command. A pattern such
 * as `git log **` has one item for each word: `*` and `?` stand for characters, and `**` for any
 * number of words.
 */
export function allowsCommand(pattern: string, text: ShellText): Match {
  const items = itemsOf(pattern);
  if (text.type === "other") return mentions(items, text) ? "maybe" : "no";
  const match = matchWords(items, text);
  // A rule allows a program that starts others only if it names that program.
  return match === "yes" && text.starts && !namesProgram(items) ? "maybe" : match;
}

/** Whether a rule with this pattern restricts a text, because the text contains its words anywhere. */
export function restrictsCommand(pattern: string, text: ShellText): Match {
  const items = itemsOf(pattern);
  if (text.type === "other") return mentions(items, text) ? "yes" : "maybe";
  const match = matchWords(items, text);
  if (!text.starts || match === "yes") return match;
  if (mentions(items, text)) return "yes";
  return match === "maybe" || !text.plain || mentions(items.slice(0, 1), text) ? "maybe" : "no";
}

/** An item of a pattern: its text, and its parsed form. */
interface Item {
  readonly text: string;
  readonly glob: Glob;
}

function itemOf(text: string): Item {
  return { text, glob: globItems(text) };
}

const WORDS = itemOf("**");

/** The items of a pattern, with its program normalized like a text's program. */
function itemsOf(pattern: string): Item[] {
  const [name = "", ...rest] = pattern.trim().split(/\s+/);
  return [name.replace(SYSTEM_FOLDER, ""), ...rest].map(itemOf);
}

/** Whether a pattern names a program: it may have wildcards only in the program's folder. */
function namesProgram([first]: readonly Item[]): boolean {
  return !/[*?]/.test(first?.text.split("/").at(-1) ?? "");
}

function matchWords(items: readonly Item[], { words }: SimpleCommand): Match {
  if (matches(items, words, isFor)) return "yes";
  if (matches(items, words, mayBeFor)) return "maybe";
  const [name, ...rest] = words;
  const bare = name?.split("/").at(-1);
  if (name === undefined || bare === undefined || bare === name) return "no";
  return matches(items, [bare, ...rest], mayBeFor) ? "maybe" : "no";
}

/** Whether the words of a pattern appear consecutively in a text. */
function mentions(items: readonly Item[], { mentioned }: ShellText): boolean {
  return matches([WORDS, ...items, WORDS], mentioned, (item, word) => {
    return mayBeFor(item, word) || mayBeFor(item, word.split("/").at(-1) ?? "");
  });
}

function matches(
  items: readonly Item[],
  words: readonly string[],
  fits: (item: Item, word: string) => boolean,
): boolean {
  // reachable[j]: whether the items so far can match the first j words
  let reachable: boolean[] = [true];
  for (const item of items) {
    const next: boolean[] = [];
    for (let j = 0; j <= words.length; j++) {
      const word = j === 0 ? undefined : words[j - 1];
      if (item.text === WORDS.text) next.push(reachable[j] === true || next[j - 1] === true);
      else next.push(word !== undefined && reachable[j - 1] === true && fits(item, word));
    }
    reachable = next;
  }
  return reachable[words.length] === true;
}

/** Whether a word matches an item. With `..` in it, a wildcard in a path says nothing about where it leads. */
function isFor({ text, glob }: Item, word: string): boolean {
  if (matchGlob(glob, word) !== "yes") return false;
  return !/[*?]/.test(text) || text === "*" || !/(^|\/)\.\.(\/|$)/.test(word);
}

function mayBeFor({ glob }: Item, word: string): boolean {
  return matchGlob(glob, word) !== "no";
}

// Names that are special in simple commands, because the words after them are more than arguments.

/** Keywords of sh, bash and zsh, which cannot be command names. */
const SHELL_KEYWORDS: ReadonlySet<string> = new Set(
  ("- ! [[ ]] { } always case coproc do done elif else end esac fi for foreach function if in " +
    "nocorrect noglob repeat select then until while").split(" "),
);

/** Shell builtins that evaluate their arguments or change the meaning of later commands. */
const EVALUATING: ReadonlySet<string> = new Set(
  ("[ alias autoload bind bindkey break bye compgen complete continue declare echotc emulate enable " +
    "eval exit export fc float functions getopts hash history integer jobs let local logout mapfile " +
    "print printf private read readarray readonly return sched set shift test trap typeset unset " +
    "vared wait zcompile zle zmodload zparseopts zstyle").split(" "),
);

/** Programs that run other programs, or code in their arguments. */
const STARTING: ReadonlySet<string> = new Set(
  (
    // shells
    "ash bash busybox csh dash elvish fish ksh mksh nu pwsh rbash sh tcsh toybox yash zsh " +
    // programs that start the command after their options
    ". builtin bwrap catchsegv chroot chrt command dbus-run-session doas entr env exec expect fakeroot " +
    "find firejail flock gdb ionice ltrace nice nohup nsenter numactl parallel prlimit proot rlwrap " +
    "runcon runuser script setarch setpriv setsid source ssh start-stop-daemon stdbuf strace su sudo " +
    "systemd-run taskset time timeout torsocks unbuffer unshare valgrind watch xargs xvfb-run " +
    // interpreters, and programs that run packages
    "awk bun bunx bundle conda deno gawk julia lua make mawk nawk node npm npx osascript perl php " +
    "pipx pnpm poetry pypy python R Rscript ruby tclsh uv uvx yarn"
  ).split(" "),
);

/** Whether a program runs its arguments, so that only a rule that names it may allow it. */
export function startsPrograms(name: string): boolean {
  const file = name.split("/").at(-1) ?? name;
  let end = file.length; // without a version, as in python3.11
  while (end > 0 && "0123456789.-".includes(file.charAt(end - 1))) end--;
  return STARTING.has(file) || STARTING.has(file.slice(0, end));
}

/** Whether a shell may run a command's arguments. */
function evaluates(name: string, args: readonly string[]): boolean {
  // The command after -exec needs its own rule, so a rule for find is not enough.
  if (name.split("/").at(-1) === "find") return args.some((word) => /^-(exec|ok)/.test(word));
  return EVALUATING.has(name);
}
