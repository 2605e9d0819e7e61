import { type ShellCommand, ShellSyntaxError, type ShellWord } from "./shell_command.ts";
import { type ReadWord, ShellReader } from "./shell_reader.ts";
import { unwrapCommand } from "./shell_wrappers.ts";

/** The longest line that is taken apart. */
const MAX_LENGTH = 64 * 1024;
/** How deep substitutions and wrapped scripts may nest. */
const MAX_DEPTH = 16;
/** The most commands that a line may have. */
const MAX_COMMANDS = 1000;

/** What is compound opens with the one word and closes with the other. */
const CLOSERS: ReadonlyMap<string, string> = new Map([
  ["if", "fi"],
  ["while", "done"],
  ["until", "done"],
  ["for", "done"],
  ["{", "}"],
]);
/** Words between the two. */
const MIDDLES: ReadonlyMap<string, string> = new Map([
  ["then", "fi"],
  ["elif", "fi"],
  ["else", "fi"],
  ["do", "done"],
]);
const ENDS: ReadonlySet<string> = new Set(["fi", "done", "}"]);
/** Grammar that is not taken apart. */
const UNSUPPORTED: ReadonlySet<string> = new Set([
  "case",
  "coproc",
  "esac",
  "function",
  "select",
  "[[",
]);

/**
 * Takes a line or script for a POSIX shell apart into all commands that it may run, those in
 * substitutions and those that `env`, `sudo`, `xargs`, `sh -c` and the like start included.
 *
 * What bash understands in another way than POSIX shells is either read so that both are covered, or
 * refused.
 *
 * @param line The line.
 * @returns The commands, and as one more each file that is redirected to or from.
 * @throws {ShellSyntaxError} It cannot be taken apart for sure.
 */
export function parseShell(line: string): ShellCommand[] {
  return parseNested(line, 0);
}

function parseNested(script: string, depth: number): ShellCommand[] {
  if (depth > MAX_DEPTH) throw new ShellSyntaxError("it nests too deeply");
  if (script.length > MAX_LENGTH) throw new ShellSyntaxError("it is too long");
  // deno-lint-ignore no-control-regex -- control characters are what this is about
  if (/[\x00-\x08\x0b-\x1f\x7f]/.test(script)) {
    throw new ShellSyntaxError("it has a control character");
  }
  const found: ShellCommand[] = [];
  let nesting = depth;
  const reader: ShellReader = new ShellReader(script, (inner) => {
    if (++nesting > MAX_DEPTH) throw new ShellSyntaxError("it nests too deeply");
    new ListParser(inner, found).parse();
    nesting--;
  });
  new ListParser(reader, found).parse();
  if (reader.next !== "") throw new ShellSyntaxError("a ) is not opened");
  return found.flatMap((command) =>
    unwrapCommand(command, (inner) => parseNested(inner, depth + 1))
  );
}

interface HereDocument {
  readonly delimiter: string;
  readonly literal: boolean;
  readonly stripTabs: boolean;
}

/** Parses a list of commands up to its end or to a `)` that it did not open. */
class ListParser {
  readonly #reader: ShellReader;
  readonly #found: ShellCommand[];
  readonly #open: string[] = [];
  readonly #hereDocuments: HereDocument[] = [];

  constructor(reader: ShellReader, found: ShellCommand[]) {
    this.#reader = reader;
    this.#found = found;
  }

  parse(): void {
    const reader = this.#reader;
    for (;;) {
      reader.skipBlanks();
      const { next } = reader;
      if (next === "" || (next === ")" && this.#open.length === 0)) break;
      if (next === "(") this.#openSubshell();
      else if (next === ")") this.#closeSubshell();
      else if (!this.#separator()) this.#command();
    }
    const unclosed = this.#open.at(-1);
    if (unclosed !== undefined) throw new ShellSyntaxError(`${unclosed} is missing`);
    if (this.#hereDocuments.length > 0) throw new ShellSyntaxError("a here-document is missing");
  }

  #openSubshell(): void {
    this.#reader.at++;
    if (this.#reader.next === "(") throw new ShellSyntaxError("it has ((…))");
    this.#open.push(")");
  }

  #closeSubshell(): void {
    this.#close(")");
    this.#reader.at++;
    this.#afterCompound();
  }

  #close(closer: string): void {
    if (this.#open.pop() !== closer) throw new ShellSyntaxError(`${closer} is out of place`);
  }

  /** Goes over what stands between commands. */
  #separator(): boolean {
    const reader = this.#reader;
    if (reader.sees(";;")) throw new ShellSyntaxError("it has ;;");
    if (reader.sees("&>")) return false; // a redirection
    if (reader.take("\n")) {
      this.#readHereDocuments();
      return true;
    }
    return ["&&", "||", "|&", "|", ";", "&"].some((operator) => reader.take(operator));
  }

  /** Reads a simple command, or goes over a keyword. */
  #command(): void {
    const reader = this.#reader;
    const words: ShellWord[] = [];
    let assigned = false;
    let redirected = false;
    for (;;) {
      reader.skipBlanks();
      if (this.#atCommandEnd()) break;
      if (this.#redirection()) {
        redirected = true;
        continue;
      }
      const word = this.#word();
      if (word === undefined) continue; // the number of a redirection's stream
      if (words.length === 0 && !assigned && !redirected && this.#keyword(word)) return;
      if (words.length === 0 && isAssignment(word)) assigned = true;
      else words.push(word);
    }
    if (words.length > 0 || assigned) this.#add({ words, assigned, redirection: false });
    else if (!redirected) throw new ShellSyntaxError(`${reader.next} is out of place`);
  }

  #atCommandEnd(): boolean {
    const { next } = this.#reader;
    if (next === "(") throw new ShellSyntaxError("it defines a function, or has a ( out of place");
    if (next === "&") return !this.#reader.sees("&>");
    return next === "" || "\n;|)".includes(next);
  }

  #word(): ReadWord | undefined {
    const reader = this.#reader;
    const word = reader.word();
    if (reader.next === "(") {
      throw new ShellSyntaxError("it defines a function, or has a ( out of place");
    }
    if (reader.next !== "<" && reader.next !== ">") return word;
    if (word.plain && /^\{\w+\}$/.test(word.text)) throw new ShellSyntaxError("it has {…}>");
    return word.plain && /^\d+$/.test(word.text) ? undefined : word;
  }

  /** Whether the word was one of the grammar, and is dealt with. */
  #keyword(word: ReadWord): boolean {
    if (!word.plain) return false;
    const { text } = word;
    if (UNSUPPORTED.has(text)) throw new ShellSyntaxError(`it has ${text}`);
    if (text === "!") return true;
    if (text === "time") {
      this.#time();
      return true;
    }
    const middle = MIDDLES.get(text);
    if (middle !== undefined) {
      if (this.#open.at(-1) !== middle) throw new ShellSyntaxError(`${text} is out of place`);
      return true;
    }
    if (ENDS.has(text)) {
      this.#close(text);
      this.#afterCompound();
      return true;
    }
    const closer = CLOSERS.get(text);
    if (closer === undefined) return false;
    this.#open.push(closer);
    if (text === "for") this.#loopWords();
    return true;
  }

  /** `for NAME in WORD…`: the words are data. */
  #loopWords(): void {
    const reader = this.#reader;
    reader.skipBlanks();
    const name = this.#atCommandEnd() ? undefined : reader.word();
    if (name === undefined || !name.plain || !/^[A-Za-z_]\w*$/.test(name.text)) {
      throw new ShellSyntaxError("it has an unusual for");
    }
    for (;;) {
      reader.skipBlanks();
      if (this.#atCommandEnd()) return;
      if (reader.next === "<" || reader.next === ">" || reader.next === "&") {
        throw new ShellSyntaxError("it has an unusual for");
      }
      reader.word();
    }
  }

  /** bash's keyword takes `-p` only; the program of that name has options that write files. */
  #time(): void {
    const reader = this.#reader;
    reader.skipBlanks();
    if (reader.next !== "-") return;
    if (reader.word().text !== "-p") throw new ShellSyntaxError("it has time with options");
  }

  /** After a `}`, `fi`, `done` or `)` only redirections may come. */
  #afterCompound(): void {
    const reader = this.#reader;
    for (;;) {
      reader.skipBlanks();
      if (this.#atCommandEnd()) return;
      if (this.#redirection()) continue;
      if (this.#word() !== undefined) throw new ShellSyntaxError("a ; is missing");
    }
  }

  #redirection(): boolean {
    const reader = this.#reader;
    if (reader.sees("<(") || reader.sees(">(")) return false; // part of a word
    const operator = REDIRECTIONS.find((candidate) => reader.take(candidate));
    if (operator === undefined) return false;
    reader.skipBlanks();
    if (
      reader.next === "" ||
      (/[\n;&|()<>]/.test(reader.next) && !/^[<>]\(/.test(reader.text.slice(reader.at)))
    ) {
      throw new ShellSyntaxError("a redirection leads nowhere");
    }
    const target = reader.word();
    switch (operator) {
      case "<<":
      case "<<-":
        this.#hereDocuments.push({
          delimiter: hereDelimiter(target),
          literal: !target.plain,
          stripTabs: operator === "<<-",
        });
        return true;
      case "<<<":
        return true;
      case "<&":
        if (!isDescriptor(target)) throw new ShellSyntaxError("it has an unusual <&");
        return true;
      case ">&":
        if (!isDescriptor(target)) this.#redirect(">", target);
        return true;
      default:
        this.#redirect(operator === "<" ? "<" : ">", target);
        return true;
    }
  }

  #redirect(direction: "<" | ">", target: ReadWord): void {
    if (!target.dynamic && HARMLESS_FILES.has(target.text)) return;
    const words = [{ text: direction, dynamic: false }, target];
    this.#add({ words, assigned: false, redirection: true });
  }

  #add(command: Omit<ShellCommand, "wrapper">): void {
    const words = command.words.map(({ text, dynamic }) => ({ text, dynamic }));
    if (this.#found.push({ ...command, words, wrapper: false }) > MAX_COMMANDS) {
      throw new ShellSyntaxError("it has too many commands");
    }
  }

  #readHereDocuments(): void {
    for (const { delimiter, literal, stripTabs } of this.#hereDocuments.splice(0)) {
      const body: string[] = [];
      for (;;) {
        if (this.#reader.next === "") throw new ShellSyntaxError("a here-document is not closed");
        const line = this.#line();
        const bare = stripTabs ? line.replace(/^\t+/, "") : line;
        if (bare === delimiter) break;
        body.push(line);
      }
      if (literal) continue;
      const text = body.join("\n");
      if (text.includes("\\\n")) {
        throw new ShellSyntaxError("a here-document has a continued line");
      }
      new ShellReader(text, this.#reader.substitute).expansions();
    }
  }

  #line(): string {
    const { text, at } = this.#reader;
    const end = text.indexOf("\n", at);
    this.#reader.at = end < 0 ? text.length : end + 1;
    return text.slice(at, end < 0 ? text.length : end);
  }
}

/** Longer ones first. */
const REDIRECTIONS = [
  "&>>",
  "&>",
  "<<<",
  "<<-",
  "<<",
  "<>",
  "<&",
  "<",
  ">>",
  ">|",
  ">&",
  ">",
] as const;

const HARMLESS_FILES: ReadonlySet<string> = new Set(["/dev/null", "/dev/stdout", "/dev/stderr"]);

function isDescriptor({ text, dynamic }: ShellWord): boolean {
  return !dynamic && /^(\d+-?|-)$/.test(text);
}

function hereDelimiter({ text, dynamic }: ShellWord): string {
  if (dynamic) throw new ShellSyntaxError("a here-document ends with an unusual word");
  return text;
}

function isAssignment({ text, plainLength }: ReadWord): boolean {
  const length = /^[A-Za-z_]\w*(\[[^\]]*\])?\+?=/.exec(text)?.[0].length;
  return length !== undefined && length <= plainLength;
}
