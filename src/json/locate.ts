/** Where a text stops being JSON. */
export interface JsonErrorPlace {
  /** The line, from 1. */
  readonly line: number;
  /** The column, from 1. */
  readonly column: number;
  /** What stands there, in words. */
  readonly found: string;
}

/**
 * Finds where a text stops being JSON. Engines say it for some errors only.
 *
 * @param text A text that `JSON.parse()` has refused.
 * @returns The place of the first character that cannot stand where it does.
 */
export function locateJsonError(text: string): JsonErrorPlace {
  const at = new Scanner(text).firstError();
  const before = text.slice(0, at).split("\n");
  const character = String.fromCodePoint(text.codePointAt(at) ?? 0);
  return {
    line: before.length,
    column: (before.at(-1)?.length ?? 0) + 1,
    found: at >= text.length
      ? "the text ends too early"
      : `unexpected ${JSON.stringify(character)}`,
  };
}

/** A value that is no object, no array and no string. */
const SCALAR = /true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
// deno-lint-ignore no-control-regex -- JSON has none in strings
const STRING = /"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*/y;
const SPACE = /[ \t\n\r]*/y;

/** Reads JSON by its grammar, up to the first mistake. Nesting costs no stack. */
class Scanner {
  readonly #text: string;
  /** The closing brackets that are owed, innermost last. */
  readonly #open: ("}" | "]")[] = [];
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  firstError(): number {
    let valid = this.#value();
    while (valid && this.#open.length > 0) valid = this.#afterValue();
    if (valid) this.#take(SPACE); // all of a value was read: the mistake is what follows it
    return this.#at;
  }

  /** Reads a value, or the start of one that has values in it, down to the first of these. */
  #value(): boolean {
    for (;;) {
      switch (this.#next()) {
        case '"':
          return this.#string();
        case "{":
          if (this.#isEmpty("}")) return true;
          if (!this.#name()) return false;
          break;
        case "[":
          if (this.#isEmpty("]")) return true;
          break;
        default:
          return this.#take(SCALAR) !== "";
      }
    }
  }

  /** Goes over an opening bracket, and over the closing one if that comes next. */
  #isEmpty(closing: "}" | "]"): boolean {
    this.#at++;
    if (this.#next() === closing) {
      this.#at++;
      return true;
    }
    this.#open.push(closing);
    return false;
  }

  #afterValue(): boolean {
    const closing = this.#open.at(-1);
    switch (this.#next()) {
      case closing:
        this.#at++;
        this.#open.pop();
        return true;
      case ",":
        this.#at++;
        return closing === "}" ? this.#member() : this.#value();
      default:
        return false;
    }
  }

  #member(): boolean {
    return this.#name() && this.#value();
  }

  #name(): boolean {
    if (this.#next() !== '"' || !this.#string() || this.#next() !== ":") return false;
    this.#at++;
    return true;
  }

  #string(): boolean {
    this.#take(STRING);
    if (this.#text[this.#at] !== '"') return false;
    this.#at++;
    return true;
  }

  #next(): string | undefined {
    this.#take(SPACE);
    return this.#text[this.#at];
  }

  #take(pattern: RegExp): string {
    pattern.lastIndex = this.#at;
    const [taken = ""] = pattern.exec(this.#text) ?? [];
    this.#at += taken.length;
    return taken;
  }
}
