/**
 * Translates regular expressions of JSON Schema (ECMA-262) for Pydantic's engine, which takes linear
 * time. Patterns with look-around or back-references, which it does not support, are not checked: the
 * server validates its arguments anyway, and its patterns must not be able to hang a kernel.
 *
 * @module
 */
import { type AST, RegExpParser } from "@eslint-community/regexpp";

/** A regular expression that Pydantic can apply. */
interface Pattern {
  /** The expression in the engine's syntax. */
  readonly source: string;
  /** Whether the engine certainly compiles it: otherwise an import could fail. */
  readonly certain: boolean;
}

/** The longest pattern. */
const MAX_LENGTH = 5_000;

/** The most groups, so that they cannot nest too deeply for the parser. */
const MAX_GROUPS = 1_000;

/** The deepest nesting of groups. The engine has a limit as well. */
const MAX_DEPTH = 100;

/** Limits on repetitions, alone and times the length, below which the engine's size limit is safe. */
const MAX_CERTAIN_REPETITIONS = 250;
const MAX_CERTAIN_SIZE = 20_000;

const parser = new RegExpParser({ ecmaVersion: 2024 });

/** The expression cannot be translated. */
class UntranslatableError extends Error {}

/** Translates a pattern; `undefined` if it cannot be translated. */
export function translatePattern(source: string): Pattern | undefined {
  if (source.length > MAX_LENGTH || source.split("(").length > MAX_GROUPS) return undefined;
  try {
    const printer = new Printer();
    const printed = printer.print(parse(source).alternatives);
    return { source: printed, certain: printer.isCertain(source.length) };
  } catch (error) {
    if (error instanceof UntranslatableError || error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** Parses with the flag `u`, as JSON Schema recommends, or without it, as some patterns require. */
function parse(source: string): AST.Pattern {
  try {
    return parser.parsePattern(source, 0, source.length, { unicode: true });
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return parser.parsePattern(source, 0, source.length, { unicode: false });
  }
}

class Printer {
  #depth = 0;
  /** The product of all bounded repetitions: an upper bound for nested ones. */
  #repetitions = 1;
  #hasProperties = false;

  isCertain(length: number): boolean {
    return !this.#hasProperties && this.#repetitions <= MAX_CERTAIN_REPETITIONS &&
      this.#repetitions * length <= MAX_CERTAIN_SIZE;
  }

  print(alternatives: readonly AST.Alternative[]): string {
    if (++this.#depth > MAX_DEPTH) throw new UntranslatableError();
    const texts = alternatives.map(({ elements }) =>
      elements.map((element) => this.#element(element)).join("")
    );
    this.#depth--;
    return texts.join("|");
  }

  #element(node: AST.Element): string {
    switch (node.type) {
      case "Assertion":
        return assertion(node);
      case "CapturingGroup": // names are useless without back-references
        return `(${this.print(node.alternatives)})`;
      case "Group":
        return `(?:${this.print(node.alternatives)})`;
      case "Quantifier": {
        const { element, min, max, raw } = node;
        this.#repetitions *= Math.max(1, Number.isFinite(max) ? max : min);
        return this.#element(element) + raw.slice(element.raw.length);
      }
      case "Character":
        return escaped(characterOf(node), /[\\^$.*+?()[\]{}|]/);
      case "CharacterClass":
        if (node.elements.length === 0) return node.negate ? "[\\s\\S]" : "[^\\s\\S]";
        return `[${node.negate ? "^" : ""}${node.elements.map((m) => this.#member(m)).join("")}]`;
      case "CharacterSet":
        if (node.kind === "any") return ".";
        if (node.kind === "property") return this.#property(node);
        return `[${node.negate ? "^" : ""}${MEMBERS[node.kind]}]`;
      default:
        throw new UntranslatableError();
    }
  }

  #member(node: AST.CharacterClassElement): string {
    switch (node.type) {
      case "Character":
        return memberCharacter(node);
      case "CharacterClassRange":
        return `${memberCharacter(node.min)}-${memberCharacter(node.max)}`;
      case "CharacterSet":
        if (node.kind === "property") return this.#property(node);
        return node.negate ? `[^${MEMBERS[node.kind]}]` : MEMBERS[node.kind];
      default:
        throw new UntranslatableError();
    }
  }

  /** A set by its Unicode property. Only the engine knows whether it supports the name. */
  #property({ raw }: AST.UnicodePropertyCharacterSet): string {
    this.#hasProperties = true;
    return raw.replace(/General_Category=|Script=|gc=|sc=/, "");
  }
}

const MEMBERS = { digit: "0-9", space: "\\s", word: "A-Za-z0-9_" } as const;

function assertion(node: AST.Assertion): string {
  if (node.kind === "start") return "^";
  if (node.kind === "end") return "$";
  if (node.kind !== "word") throw new UntranslatableError();
  return node.negate ? "\\B" : "(?-u:\\b)"; // words are ASCII in ECMA-262
}

/** The character that a node stands for. */
function characterOf({ raw, value }: AST.Character): string {
  // Escaped letters without meaning in ECMA-262, and octal escapes, were meant for another engine.
  const isMeaningless = raw.length === 2 && /^\\[A-Za-z]/.test(raw) && value === raw.charCodeAt(1);
  const isSurrogate = value >= 0xd800 && value < 0xe000;
  if (isMeaningless || isSurrogate || /^\\(?:[1-9]|0\d)/.test(raw)) throw new UntranslatableError();
  return String.fromCodePoint(value);
}

/** A character in a set, with the engine's set operators (doubled characters) escaped. */
function memberCharacter(node: AST.Character): string {
  return escaped(characterOf(node), /[\\^\][&~|-]/);
}

function escaped(char: string, special: RegExp): string {
  if (special.test(char)) return `\\${char}`;
  const code = char.charCodeAt(0);
  return code < 0x20 || code === 0x7f ? `\\x${code.toString(16).padStart(2, "0")}` : char;
}
