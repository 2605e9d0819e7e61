import { ShellSyntaxError, type ShellWord } from "./shell_command.ts";

/** A word with what the grammar needs to know of how it was written. */
export interface ReadWord extends ShellWord {
  /** How much of the text comes before any quote or expansion. */
  readonly plainLength: number;
  /** Whether any of it was quoted or expanded: such a word is no keyword. */
  readonly plain: boolean;
}

/** Takes the text of a command substitution apart. */
export type Substitution = (reader: ShellReader) => void;

/** What ends a word where it is not quoted. */
const WORD_END = /[ \t\n;&|<>()]/;
const NAME = /[A-Za-z_][A-Za-z0-9_]*/y;
const PARAMETER_OPERATOR = /:?[-+=?]|%%?|##?/y;
const ARITHMETIC = /[\d\s+\-*/%<>=!&|^~?:,()]*?(?=\)\))/y;

/** Reads the words of a shell line, and hands each command substitution in them on. */
export class ShellReader {
  /** Where it reads. */
  at = 0;

  /**
   * @param text The line.
   * @param substitute Called at the start of `$(…)`'s content, which it reads up to its `)`, and with
   * a reader of its own for backticks.
   */
  constructor(readonly text: string, readonly substitute: Substitution) {}

  /** The next character, or `""` at the end. */
  get next(): string {
    return this.text.charAt(this.at);
  }

  /** Whether a text comes next. */
  sees(text: string): boolean {
    return this.text.startsWith(text, this.at);
  }

  /** Goes over a text if it comes next. */
  take(text: string): boolean {
    if (!this.sees(text)) return false;
    this.at += text.length;
    return true;
  }

  /** Goes over blanks, continued lines and a comment. */
  skipBlanks(): void {
    for (;;) {
      if (this.next === " " || this.next === "\t") this.at++;
      else if (!this.take("\\\n")) break;
    }
    if (this.next !== "#") return;
    const end = this.text.indexOf("\n", this.at);
    this.at = end < 0 ? this.text.length : end;
  }

  /** Reads a word; one comes next. */
  word(): ReadWord {
    const word = new WordBuilder();
    while (this.next !== "" && (!WORD_END.test(this.next) || this.#processSubstitution())) {
      const character = this.next;
      if (character === "<" || character === ">") {
        this.at += 2;
        this.#command();
        word.expand();
      } else if (this.take("\\\n")) continue;
      else if (character === "'") word.quote(this.#singleQuoted());
      else if (character === '"') {
        this.at++;
        word.quote("");
        this.#doubleQuoted(word);
      } else if (character === "\\") {
        this.at++;
        if (this.next === "") throw new ShellSyntaxError("it ends with a backslash");
        word.quote(this.#character());
      } else if (character === "$") this.#dollar(word, true);
      else if (character === "`") {
        this.#backticks(false);
        word.expand();
      } else word.add(this.#character());
    }
    return word.finish();
  }

  /** Goes over text in which only expansions count, such as a here-document, to its end. */
  expansions(): void {
    const ignored = new WordBuilder();
    while (this.next !== "") {
      if (this.next === "\\") this.at += 2;
      else if (this.next === "$") this.#dollar(ignored, false);
      else if (this.next === "`") this.#backticks(false);
      else this.at++;
    }
  }

  /** Whether bash's `<(…)` or `>(…)` comes next, the reading position being inside or before a word. */
  #processSubstitution(): boolean {
    return this.sees("<(") || this.sees(">(");
  }

  #character(): string {
    const code = this.text.codePointAt(this.at);
    if (code === undefined) throw new ShellSyntaxError("it ends too early");
    const character = String.fromCodePoint(code);
    this.at += character.length;
    return character;
  }

  #singleQuoted(): string {
    const end = this.text.indexOf("'", this.at + 1);
    if (end < 0) throw new ShellSyntaxError("a ' is not closed");
    const text = this.text.slice(this.at + 1, end);
    this.at = end + 1;
    return text;
  }

  #doubleQuoted(word: WordBuilder): void {
    while (this.next !== '"') {
      if (this.next === "") throw new ShellSyntaxError('a " is not closed');
      if (this.next === "\\") {
        this.at++;
        if (this.take("\n")) continue;
        word.quote('$`"\\'.includes(this.next) ? this.#character() : "\\");
      } else if (this.next === "$") this.#dollar(word, false);
      else if (this.next === "`") {
        this.#backticks(true);
        word.expand();
      } else word.quote(this.#character());
    }
    this.at++;
  }

  #dollar(word: WordBuilder, unquoted: boolean): void {
    this.at++;
    if (this.take("((")) this.#arithmetic();
    else if (this.take("(")) this.#command();
    else if (this.take("{")) this.#braced();
    else if (this.#takePattern(NAME) === undefined && !this.#takeSpecial()) {
      if (this.next === "[") throw new ShellSyntaxError("it has $[…]");
      if (!unquoted || (this.next !== "'" && this.next !== '"')) {
        word.quote("$");
        return;
      }
      // bash and sh read $'…' in different ways, but agree on where it ends without a backslash
      if (this.next === "'" && this.#singleQuoted().includes("\\")) {
        throw new ShellSyntaxError("it has $'…' with a backslash");
      }
    }
    word.expand();
  }

  #takeSpecial(): boolean {
    if (this.next === "" || !"@*#?-$!0123456789".includes(this.next)) return false;
    this.at++;
    return true;
  }

  #takePattern(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text)?.[0];
    if (found !== undefined) this.at += found.length;
    return found;
  }

  /** Only numbers: what a variable holds is worked out too, and bash runs what is in subscripts there. */
  #arithmetic(): void {
    if (this.#takePattern(ARITHMETIC) === undefined || !this.take("))")) {
      throw new ShellSyntaxError("it has arithmetic that is more than numbers");
    }
  }

  #command(): void {
    this.substitute(this);
    if (!this.take(")")) throw new ShellSyntaxError("a ( is not closed");
  }

  #braced(): void {
    const length = this.take("#");
    const named = this.#takePattern(NAME) !== undefined || this.#takeSpecial();
    if (!named) throw new ShellSyntaxError("it has an unusual ${…}");
    if (this.take("}")) return;
    if (length || this.#takePattern(PARAMETER_OPERATOR) === undefined) {
      throw new ShellSyntaxError("it has an unusual ${…}");
    }
    const ignored = new WordBuilder();
    while (this.next !== "}") {
      if (this.next === "$") this.#dollar(ignored, false);
      else if (this.next === "`") this.#backticks(false);
      else if (
        // bash runs a process substitution here as well
        this.next === "" || "'\"\\{".includes(this.next) || this.#processSubstitution()
      ) {
        throw new ShellSyntaxError("it has an unusual ${…}");
      } else this.at++;
    }
    this.at++;
  }

  #backticks(inDoubleQuotes: boolean): void {
    let inner = "";
    this.at++;
    while (this.next !== "`") {
      if (this.next === "") throw new ShellSyntaxError("a ` is not closed");
      if (this.next === "\\") {
        this.at++;
        const escaped = this.#character();
        if (!(inDoubleQuotes ? '$`\\"' : "$`\\").includes(escaped)) inner += "\\";
        inner += escaped;
      } else inner += this.#character();
    }
    this.at++;
    const reader = new ShellReader(inner, this.substitute);
    this.substitute(reader);
    if (reader.next !== "") throw new ShellSyntaxError("a ) is not opened");
  }
}

class WordBuilder {
  #text = "";
  #dynamic = false;
  #plainLength: number | undefined;
  /** The text as written, with what was quoted left out: what the shell expands once more. */
  #unquoted = "";

  add(character: string): void {
    this.#text += character;
    this.#unquoted += character;
  }

  quote(text: string): void {
    this.#plainLength ??= this.#text.length;
    this.#text += text;
    this.#unquoted += "\0";
  }

  expand(): void {
    this.quote("");
    this.#dynamic = true;
  }

  finish(): ReadWord {
    const expands = /[*?[]|(^|[=:])~/.test(this.#unquoted) || hasBraces(this.#unquoted);
    return {
      text: this.#text,
      dynamic: this.#dynamic || expands,
      plainLength: this.#plainLength ?? this.#text.length,
      plain: this.#plainLength === undefined,
    };
  }
}

/** Whether bash makes several words of it, as of `{a,b}` and `{1..9}`. */
function hasBraces(text: string): boolean {
  const [start, end] = [text.indexOf("{"), text.lastIndexOf("}")];
  return start >= 0 && start < end && /,|\.\./.test(text.slice(start, end));
}
