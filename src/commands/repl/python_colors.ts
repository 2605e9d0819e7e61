import type { ColoredPart } from "./line_buffer.ts";

/** The colors of tokens, as parameters of SGR. */
const COLORS = {
  keyword: "35",
  string: "32",
  number: "33",
  comment: "2",
  magic: "34",
} as const;

/**
 * The colors of code that is being typed. Anything but Python is left plain, such as commands after
 * `!`.
 *
 * IPython's own lexers are in the kernel, which may be busy, and parsers of Python know no magics.
 */
export function pythonColors(code: string): readonly ColoredPart[] {
  return new Tokens(code).parts();
}

const NUMBER = [
  String.raw`0[xX](?:_?[\da-fA-F])+|0[bB](?:_?[01])+|0[oO](?:_?[0-7])+`,
  String.raw`(?:\d(?:_?\d)*(?:\.(?:\d(?:_?\d)*)?)?|\.\d(?:_?\d)*)(?:[eE][+-]?\d(?:_?\d)*)?[jJ]?`,
].join("|");
const STRING = `(?:[fFtT][rR]?|[rR][fFtTbB]?|[bB][rR]?|[uU])?(?:"""|'''|"|')`;
const TOKEN = new RegExp(
  [
    String.raw`(?<space>(?:[ \t\f]|\\\r?\n)+)`,
    String.raw`(?<comment>#[^\n]*)`,
    `(?<string>${STRING})`,
    `(?<number>${NUMBER})`,
    String.raw`(?<name>[\p{ID_Start}_]\p{ID_Continue}*)`,
    String.raw`(?<other>[^])`,
  ].join("|"),
  "uy",
);

/** Where the text of a string may end. */
const IN_STRING = /["'\\\n{}]/g;

/** A magic or a command of the shell, where a line begins or its output is assigned. */
const LINE_MAGIC = /[ \t]*(?:(?<name>%{1,2}[\w.]+)|!{1,2})/y;

/** The magics of a cell. */
const CELL_MAGIC = /^\s*(?<name>%%\w+)/;

/** Magics that Python follows. */
const TAKES_PYTHON = /^%{1,2}(?:capture|memit|prun|time|timeit)$/;

/** The contexts in which ordinary names are keywords. */
const SOFT_KEYWORD = /(?:match|case)[ \t]+[^\s=.,:)\]].*:|type[ \t]+\w+[ \t]*[=[]/y;

/** The construct being read. Strings such as `f"{x:>{width}}"` have fields of code, and these have formats. */
type Frame =
  | { readonly kind: "code"; brackets: number }
  | { readonly kind: "string"; readonly quote: string; readonly isFormatted: boolean }
  | { readonly kind: "format" };

/** Reads code once, from start to end. */
class Tokens {
  readonly #code: string;
  readonly #parts: ColoredPart[] = [];
  #at = 0;
  #frames: Frame[] = [{ kind: "code", brackets: 0 }];
  #atLineStart = true;
  /** The token before, without spaces. */
  #before = "";

  constructor(code: string) {
    this.#code = code;
  }

  parts(): readonly ColoredPart[] {
    const code = this.#code;
    const [command] = /^:\s*\S*/.exec(code) ?? [];
    const { 0: start, groups: { name: cellMagic = "" } = {} } = CELL_MAGIC.exec(code) ?? {};
    if (command !== undefined) this.#add("magic", command.length);
    else if (start !== undefined && !TAKES_PYTHON.test(cellMagic)) this.#add("magic", start.length);
    else while (this.#at < code.length) this.#next();
    return this.#parts;
  }

  #next(): void {
    const frame = this.#frames.at(-1);
    if (frame?.kind !== "code") this.#readText();
    else if (!this.#readMagic()) this.#readToken(frame);
  }

  /** Adds a part that begins here, and goes on after it. */
  #add(kind: keyof typeof COLORS, length: number): void {
    const start = this.#at;
    this.#at += length;
    if (length > 0) this.#parts.push({ start, end: this.#at, color: COLORS[kind] });
  }

  #readMagic(): boolean {
    const [code, field] = this.#frames;
    const isStatement = field === undefined && code?.kind === "code" && code.brackets === 0;
    if (!isStatement || !this.#atLineStart && this.#before !== "=") return false;
    LINE_MAGIC.lastIndex = this.#at;
    const found = LINE_MAGIC.exec(this.#code);
    if (found === null) return false;
    this.#add("magic", found[0].length);
    if (!TAKES_PYTHON.test(found.groups?.name ?? "")) {
      const end = this.#code.indexOf("\n", this.#at);
      this.#at = end === -1 ? this.#code.length : end;
    }
    this.#atLineStart = false;
    this.#before = "";
    return true;
  }

  #readToken(frame: Frame & { kind: "code" }): void {
    TOKEN.lastIndex = this.#at;
    const { 0: token = "", groups = {} } = TOKEN.exec(this.#code) ?? {};
    if (groups.space !== undefined) {
      this.#at += token.length;
      return;
    }
    if (groups.string !== undefined) this.#beginString(token);
    else if (groups.comment !== undefined) this.#add("comment", token.length);
    else if (groups.number !== undefined) this.#add("number", token.length);
    else if (groups.name !== undefined) this.#readName(token);
    else if (token === "\n") this.#endLine();
    else this.#readOther(token, frame);
    this.#atLineStart = token === "\n" && this.#frames.length === 1 && frame.brackets === 0;
    this.#before = token;
  }

  #readName(name: string): void {
    if (KEYWORDS.has(name) || this.#isSoftKeyword(name)) this.#add("keyword", name.length);
    else this.#at += name.length;
  }

  #isSoftKeyword(name: string): boolean {
    if (!this.#atLineStart || !/^(?:match|case|type)$/.test(name)) return false;
    SOFT_KEYWORD.lastIndex = this.#at;
    return SOFT_KEYWORD.test(this.#code);
  }

  #readOther(token: string, frame: Frame & { kind: "code" }): void {
    if (token === "?") return this.#add("magic", 1); // as in `len?`, for Python has none
    this.#at += token.length;
    const isField = this.#frames.length > 1 && frame.brackets === 0;
    if (isField && token === "}") this.#frames.pop();
    else if (isField && token === ":") this.#frames.push({ kind: "format" });
    else if (/^[([{]$/.test(token)) frame.brackets++;
    else if (/^[)\]}]$/.test(token)) frame.brackets = Math.max(0, frame.brackets - 1);
  }

  #beginString(start: string): void {
    const [prefix = ""] = /^\w*/.exec(start) ?? [];
    const quote = start.slice(prefix.length);
    this.#frames.push({ kind: "string", quote, isFormatted: /[ft]/i.test(prefix) });
    this.#add("string", start.length);
  }

  /** Ends a line, and a string on it that has not ended: it is still being typed. */
  #endLine(): void {
    this.#at++;
    const open = this.#frames.findIndex((frame) =>
      frame.kind === "string" && frame.quote.length === 1
    );
    if (open !== -1) this.#frames.length = open;
  }

  /** Reads a string or a format up to its end, or to a field in it. */
  #readText(): void {
    const code = this.#code;
    const string = this.#frames.findLast((frame) => frame.kind === "string");
    const inFormat = this.#frames.at(-1)?.kind === "format";
    if (string === undefined) return;
    IN_STRING.lastIndex = this.#at;
    for (;;) {
      const at = IN_STRING.exec(code)?.index ?? code.length;
      const character = code[at];
      const isEscaped = character === "\\" ||
        string.isFormatted && !inFormat && /^(?:\{\{|\}\})/.test(code.slice(at, at + 2));
      if (isEscaped) {
        IN_STRING.lastIndex = at + 2;
      } else if (character === undefined) {
        return this.#add("string", at - this.#at);
      } else if (code.startsWith(string.quote, at)) {
        this.#frames.length = this.#frames.lastIndexOf(string);
        return this.#add("string", at + string.quote.length - this.#at);
      } else if (character === "\n" && string.quote.length === 1) {
        this.#add("string", at - this.#at);
        return this.#endLine();
      } else if (character === "{" && string.isFormatted) {
        this.#add("string", at - this.#at);
        this.#frames.push({ kind: "code", brackets: 0 });
        this.#at++;
        this.#before = "{";
        return;
      } else if (character === "}" && inFormat) {
        this.#add("string", at - this.#at);
        this.#frames.splice(-2); // the format and its field
        this.#at++;
        return;
      }
    }
  }
}

const KEYWORDS: ReadonlySet<string> = new Set(
  ("False None True and as assert async await break class continue def del elif else except " +
    "finally for from global if import in is lambda nonlocal not or pass raise return try while " +
    "with yield").split(" "),
);
