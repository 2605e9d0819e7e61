/**
 * What is known of a text that a shell runs. Only one simple command is read word by word; everything
 * else that shells understand is left to the person.
 *
 * @module
 */
import { MAX_TEXT } from "./match.ts";
import { evaluates, SHELL_KEYWORDS, startsPrograms } from "./shell_programs.ts";

/** A text for a shell. */
export type ShellText = SimpleCommand | OtherText;

/** One command whose words are known exactly. */
export interface SimpleCommand {
  readonly type: "simple";
  /** Its name and arguments, without their quotes. */
  readonly words: readonly string[];
  /** Whether it runs what its arguments say, as `sudo` and `sh -c` do. */
  readonly starts: boolean;
  /** Whether all words stand as they are, without quotes. */
  readonly plain: boolean;
  /** Every word in the text, those in quotes included. */
  readonly mentioned: readonly string[];
}

/** Anything else. */
export interface OtherText {
  readonly type: "other";
  /** What makes it more than a simple command, as in "it has a |". */
  readonly reason: string;
  /** Every word in the text, wherever it stands. */
  readonly mentioned: readonly string[];
}

/** The longest text that is read. */
const MAX_LENGTH = 64 * 1024;
/** Where a system keeps its programs: a name there means the same as the name alone. */
const SYSTEM_FOLDER = /^\/(usr\/(local\/)?)?s?bin\/(?=[^/]+$)/;
/** What every shell takes as it is. A letter that is not ASCII is a blank to some of them. */
const PLAIN = /[\w@%+=:,./-]+/y;
/** Shells differ in what a backslash before a letter means. */
const ESCAPED = /\\[ -/:-@[-`{-~]/y;
const SINGLE_QUOTED = /'[^']*'/y;
const DOUBLE_QUOTED = /"(?:[^"\\$`]|\\["\\$`])*"/y;
const BLANKS = /[ \t]+/y;

/** Reads a text for a shell. */
export function readShell(text: string): ShellText {
  const mentioned = text.length > MAX_TEXT ? [] : wordsIn(text);
  const other = (reason: string): OtherText => ({ type: "other", reason, mentioned });
  if (text.length > MAX_LENGTH) return other(`it is longer than ${MAX_LENGTH} characters`);
  const line = text.replace(/^[ \t\n]+/, "").replace(/(?<![ \t\n])[ \t\n]+$/, "");
  const found = splitWords(line);
  if (typeof found === "string") return other(found);
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

/** A text that is not for a shell whose grammar is known. */
export function otherText(text: string, reason: string): OtherText {
  return { type: "other", reason, mentioned: text.length > MAX_TEXT ? [] : wordsIn(text) };
}

/** The words of a simple command, or why it is none. */
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
    if (/[\x00-\x1f\x7f]/.test(piece)) return "it has a line end or control character in quotes";
    // zsh puts the path of a program in the place of =NAME
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
    return "it has an open quote, or something in double quotes that the shell expands";
  }
  return /[!-~]/.test(character) ? `it has a ${character}` : "it has an unusual character";
}

/**
 * Every word in a text, with quotes and backslashes removed, whatever its grammar: a rule that denies
 * `rm` is also about the `rm` in `sh -c 'xargs r\m'`.
 */
function wordsIn(text: string): string[] {
  return text.replaceAll("\\\n", "").replace(/['"\\]+/g, "")
    .split(/[\s;&|()<>{}[\]$`!,*?~#=]+/)
    .filter((word) => word !== "");
}
