/**
 * Regular expressions of JSON Schema (ECMA-262) in the two dialects that Python code has: the
 * linear-time engine of Pydantic, and Python's own `re` for look-around and back-references.
 *
 * @module
 */

import { spend } from "./work.ts";

/** A regular expression that Python can apply. */
export interface Pattern {
  /** The expression, in the dialect of the engine. */
  readonly source: string;
  /**
   * Set when only the backtracking engine has what it takes: the longest string that it can be given
   * without a risk of hanging.
   */
  readonly longest?: number;
  /** Whether the engine is sure to compile it, so that no import can fail. */
  readonly certain: boolean;
}

/** Steps that a backtracking engine may take for one string, as far as that can be foreseen. */
const MAX_STEPS = 3_000_000;

/** Repetitions up to which the linear-time engine's size limit cannot be reached. */
const MAX_CERTAIN_REPETITIONS = 250;

/** The expression has something that no translation exists for. */
class Untranslatable extends Error {}

/** Translates a pattern. */
export function translatePattern(source: string): Pattern | undefined {
  if (source.length > 5_000) return undefined;
  spend(20 + 10 * source.length);
  try {
    return new Translator(source).translate();
  } catch (error) {
    if (error instanceof Untranslatable) return undefined;
    throw error;
  }
}

/** What a part of a pattern costs a backtracking engine. */
interface Cost {
  /** Unbounded repetitions, each of which may try every length. */
  readonly loops: number;
  /** Other choices, multiplied. */
  readonly choices: number;
  /** The same for each look-around in it, which is matched once a place. */
  readonly asides: readonly Cost[];
}

/** A translated part. */
interface Part {
  readonly text: string;
  readonly cost: Cost;
  /** Whether it can match the same place in several ways. */
  readonly varies: boolean;
}

const FREE: Cost = { loops: 0, choices: 1, asides: [] };

const SPACES = "\\s\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000\\ufeff";
const WORD = "A-Za-z0-9_";

class Translator {
  #at = 0;
  #groups = 0;
  #depth = 0;
  /** All bounded repetitions multiplied: more than nesting would give, and simple. */
  #repetitions = 1;
  #certain = true;
  readonly #backtracking: boolean;
  readonly #names = new Set<string>();

  constructor(readonly source: string) {
    this.#backtracking = /\(\?<?[=!]|\\[1-9]|\\k</.test(source);
  }

  translate(): Pattern | undefined {
    const { text, cost } = this.#alternatives();
    if (this.#at < this.source.length) throw new Untranslatable();
    if (!this.#backtracking) return { source: text, certain: this.#certain };
    const longest = Math.min(...allCosts(cost).map(longestFor));
    return longest >= 1 ? { source: text, longest, certain: false } : undefined;
  }

  #alternatives(): Part {
    if (++this.#depth > 100) throw new Untranslatable();
    const texts: string[] = [];
    const costs: Cost[] = [];
    let varies = false;
    do {
      const { text, cost, varies: inner } = this.#sequence();
      texts.push(text);
      costs.push(cost);
      varies ||= inner;
    } while (this.#take("|"));
    this.#depth--;
    if (texts.length > 1) varies = true;
    return { text: texts.join("|"), cost: either(costs), varies };
  }

  #sequence(): Part {
    let text = "";
    let cost = FREE;
    let varies = false;
    while (this.#at < this.source.length && !/[|)]/.test(this.#peek())) {
      const atom = this.#atom();
      const times = this.#quantifier();
      // Ways to split a string among repetitions of something that varies grow without bound.
      if (atom.varies && times.most > 1 && this.#backtracking) throw new Untranslatable();
      text += atom.text + times.text;
      varies ||= atom.varies || times.least !== times.most;
      cost = both(cost, both(atom.cost, times.cost));
    }
    return { text, cost, varies };
  }

  #atom(): Part {
    const char = this.#next();
    if (char === "(") return this.#group();
    if (char === "[") return plain(this.#characterClass());
    if (char === "\\") return this.#escape();
    if (char === "$") return plain(this.#backtracking ? "\\Z" : "$");
    if (char === "^" || char === ".") return plain(char);
    if (char === "*" || char === "+" || char === "?") throw new Untranslatable();
    return plain(quoted(char));
  }

  #group(): Part {
    let open = "(";
    let aside = false;
    if (this.#take("?")) {
      const kind = /^(?::|<?[=!]|<([A-Za-z_]\w*)>)/.exec(this.source.slice(this.#at));
      if (kind === null) throw new Untranslatable();
      this.#at += kind[0].length;
      aside = /[=!]$/.test(kind[0]);
      if (kind[1] !== undefined) {
        if (this.#names.has(kind[1])) throw new Untranslatable();
        this.#names.add(kind[1]);
        this.#groups++;
        open = `(?P<${kind[1]}>`;
      } else {
        open = `(?${kind[0]}`;
      }
    } else {
      this.#groups++;
    }
    const inner = this.#alternatives();
    if (!this.#take(")")) throw new Untranslatable();
    const text = `${open}${inner.text})`;
    if (!aside) return { ...inner, text };
    return { text, cost: { ...FREE, asides: allCosts(inner.cost) }, varies: false };
  }

  /** Reads a quantifier, if there is one here. */
  #quantifier(): { text: string; least: number; most: number; cost: Cost } {
    const rest = this.source.slice(this.#at, this.#at + 30);
    const match = /^(?:[*+?]|\{(\d{1,9})(?:(,)(\d{1,9})?)?\})\??/.exec(rest);
    if (match === null) return { text: "", least: 1, most: 1, cost: FREE };
    this.#at += match[0].length;
    const [text, from, comma, to] = match;
    const least = from === undefined ? (text.startsWith("+") ? 1 : 0) : Number(from);
    const most = from === undefined
      ? (text.startsWith("?") ? 1 : Infinity)
      : to !== undefined
      ? Number(to)
      : comma === undefined
      ? least
      : Infinity;
    if (least > most) throw new Untranslatable();
    this.#repetitions *= Math.max(1, Number.isFinite(most) ? most : least);
    if (this.#repetitions > MAX_CERTAIN_REPETITIONS) this.#certain = false;
    const cost = most === Infinity
      ? { loops: 1, choices: 1, asides: [] }
      : { loops: 0, choices: most - least + 1, asides: [] };
    return { text, least, most, cost };
  }

  #escape(): Part {
    const reference = /^[1-9]\d*/.exec(this.source.slice(this.#at));
    if (reference !== null) {
      if (Number(reference[0]) > this.#groups) throw new Untranslatable();
      this.#at += reference[0].length;
      return { text: `(?:\\${reference[0]})`, cost: FREE, varies: true };
    }
    const named = /^k<(\w+)>/.exec(this.source.slice(this.#at));
    if (named !== null) {
      if (!this.#names.has(named[1] ?? "")) throw new Untranslatable();
      this.#at += named[0].length;
      return { text: `(?P=${named[1]})`, cost: FREE, varies: true };
    }
    const char = this.#peek();
    if (char === "b" || char === "B") {
      this.#at++;
      // Words are ASCII in ECMA-262; the other engine is told so by a flag.
      return plain(char === "b" && !this.#backtracking ? "(?-u:\\b)" : `\\${char}`);
    }
    const set = this.#set();
    if (set !== undefined) return plain(set.negated ? `[^${set.members}]` : `[${set.members}]`);
    if (/[pP]/.test(char)) return plain(this.#property());
    return plain(quoted(this.#codePoint()));
  }

  /** Reads one of `d`, `w`, `s` and their opposites after a backslash. */
  #set(): { members: string; negated: boolean } | undefined {
    const char = this.#peek();
    const kind = char.toLowerCase();
    if (kind !== "d" && kind !== "w" && kind !== "s") return undefined;
    this.#at++;
    const spaces = this.#backtracking ? SPACES : "\\s";
    return {
      members: kind === "d" ? "0-9" : kind === "w" ? WORD : spaces,
      negated: char !== kind,
    };
  }

  /** Reads `p{…}` after a backslash. Which names the engine knows is found out there. */
  #property(): string {
    const match = /^[pP]\{([A-Za-z_=]{1,60})\}/.exec(this.source.slice(this.#at));
    if (match === null || this.#backtracking) throw new Untranslatable();
    this.#at += match[0].length;
    this.#certain = false;
    return `\\${match[0].replace(/General_Category=|Script=|gc=|sc=/, "")}`;
  }

  #characterClass(): string {
    const negated = this.#take("^");
    let members = "";
    let empty = true;
    while (!this.#take("]")) {
      if (this.#at >= this.source.length) throw new Untranslatable();
      empty = false;
      members += this.#classMember();
    }
    if (empty) return negated ? "[\\s\\S]" : "[^\\s\\S]";
    return `[${negated ? "^" : ""}${members}]`;
  }

  #classMember(): string {
    const from = this.#classAtom();
    if (this.#peek() !== "-" || this.source[this.#at + 1] === "]") return from.text;
    this.#at++;
    const to = this.#classAtom();
    if (from.char === undefined || to.char === undefined) return `${from.text}\\-${to.text}`;
    if ((from.char.codePointAt(0) ?? 0) > (to.char.codePointAt(0) ?? 0)) throw new Untranslatable();
    return `${from.text}-${to.text}`;
  }

  /** Reads a member of a class: one character, or a set of them. */
  #classAtom(): { text: string; char?: string } {
    if (this.#at >= this.source.length) throw new Untranslatable();
    const char = this.#next();
    if (char !== "\\") return { text: quotedInClass(char), char };
    const set = this.#set();
    if (set !== undefined) {
      if (!set.negated) return { text: set.members };
      const letter = this.source[this.#at - 1] ?? "";
      // Python's sets know no sets in them; its flag for ASCII makes its own ones fit.
      return { text: this.#backtracking ? `\\${letter}` : `[^${set.members}]` };
    }
    if (/[pP]/.test(this.#peek())) return { text: this.#property() };
    if (this.#take("b")) return { text: "\\x08", char: "\b" };
    const code = this.#codePoint();
    return { text: quotedInClass(code), char: code };
  }

  /** Reads what follows a backslash that stands for one character. */
  #codePoint(): string {
    const rest = this.source.slice(this.#at);
    const pair = /^u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})/.exec(rest);
    if (pair !== null) {
      this.#at += pair[0].length;
      return String.fromCharCode(parseInt(pair[1] ?? "", 16), parseInt(pair[2] ?? "", 16));
    }
    const hex = /^(?:u\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2}))/.exec(rest);
    if (hex !== null) {
      this.#at += hex[0].length;
      const code = parseInt(hex[1] ?? hex[2] ?? hex[3] ?? "", 16);
      if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) throw new Untranslatable();
      return String.fromCodePoint(code);
    }
    const control = /^c([A-Za-z])/.exec(rest);
    if (control !== null) {
      this.#at += 2;
      return String.fromCharCode((control[1] ?? "").charCodeAt(0) % 32);
    }
    const char = this.#next();
    if (char === "0" && !/^\d/.test(rest.slice(1))) return "\0";
    const known = { t: "\t", n: "\n", r: "\r", v: "\v", f: "\f" }[char];
    if (known !== undefined) return known;
    // A letter that means nothing in ECMA-262 may mean something else here.
    if (/[A-Za-z0-9]/.test(char)) throw new Untranslatable();
    return char;
  }

  #peek(): string {
    return this.source[this.#at] ?? "";
  }

  #next(): string {
    const code = this.source.codePointAt(this.#at);
    if (code === undefined || (code >= 0xd800 && code < 0xe000)) throw new Untranslatable();
    const char = String.fromCodePoint(code);
    this.#at += char.length;
    return char;
  }

  #take(char: string): boolean {
    if (this.#peek() !== char) return false;
    this.#at++;
    return true;
  }
}

function plain(text: string): Part {
  return { text, cost: FREE, varies: false };
}

function quoted(char: string): string {
  if (/[\\^$.*+?()[\]{}|]/.test(char)) return `\\${char}`;
  return printable(char);
}

function quotedInClass(char: string): string {
  // Both engines have set operations, or warn of having them one day, for these when doubled.
  if (/[\\^\][&~|-]/.test(char)) return `\\${char}`;
  return printable(char);
}

function printable(char: string): string {
  const code = char.codePointAt(0) ?? 0;
  return code < 0x20 || code === 0x7f ? `\\x${code.toString(16).padStart(2, "0")}` : char;
}

function both(left: Cost, right: Cost): Cost {
  return {
    loops: left.loops + right.loops,
    choices: left.choices * right.choices,
    asides: [...left.asides, ...right.asides],
  };
}

function either(costs: readonly Cost[]): Cost {
  return {
    loops: Math.max(...costs.map((cost) => cost.loops)),
    choices: costs.reduce((sum, cost) => sum + cost.choices, 0),
    asides: costs.flatMap((cost) => cost.asides),
  };
}

function allCosts(cost: Cost): readonly Cost[] {
  return [{ ...cost, asides: [] }, ...cost.asides];
}

/** The longest string that stays within the steps: each loop, and the place to start, may take all. */
function longestFor(cost: Cost): number {
  return Math.floor(Math.min(10_000, (MAX_STEPS / cost.choices) ** (1 / (cost.loops + 1))));
}
