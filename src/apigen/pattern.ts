/**
 * Regular expressions of JSON Schema (ECMA-262) in the dialect of Pydantic's engine, which takes
 * linear time. What that engine does not have, look-around and back-references, stays unchecked: the
 * server checks its arguments itself, and its patterns must not be able to hang a kernel.
 *
 * @module
 */
import { type AST, RegExpParser } from "@eslint-community/regexpp";
import { spend } from "./work.ts";

/** A regular expression that Pydantic can apply. */
export interface Pattern {
  /** The expression, in the dialect of the engine. */
  readonly source: string;
  /** Whether the engine is sure to compile it, so that no import can fail. */
  readonly certain: boolean;
}

/** How long a pattern may be. */
const MAX_LENGTH = 5_000;

/** Groups that a pattern may have, so that none nests deeper than the parser can follow. */
const MAX_GROUPS = 1_000;

/** How deep groups may nest. The engine has such a limit, too. */
const MAX_DEPTH = 100;

/** Repetitions, and characters times them, up to which the engine's size limit cannot be reached. */
const MAX_CERTAIN_REPETITIONS = 250;
const MAX_CERTAIN_SIZE = 20_000;

const parser = new RegExpParser({ ecmaVersion: 2024 });

/** The expression has something that no translation exists for. */
class UntranslatableError extends Error {}

/** Translates a pattern; `undefined` if that is not possible. */
export function translatePattern(source: string): Pattern | undefined {
  if (source.length > MAX_LENGTH || source.split("(").length > MAX_GROUPS) return undefined;
  spend(20 + 20 * source.length);
  try {
    const printer = new Printer();
    const printed = printer.print(parse(source).alternatives);
    return { source: printed, certain: printer.isCertain(source.length) };
  } catch (error) {
    if (error instanceof UntranslatableError || error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** JSON Schema recommends the flag `u`; some servers write patterns that only do without it. */
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
  /** All bounded repetitions multiplied: more than nesting would give, and simple. */
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
      case "CapturingGroup": // its name is of no use without references
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

  /** A set by its Unicode property. Which names the engine knows is found out there. */
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

/** The character that a part of a pattern stands for. */
function characterOf({ raw, value }: AST.Character): string {
  // A letter that has no meaning in ECMA-262 was meant to have one, and so was an octal number.
  const isMeaningless = raw.length === 2 && /^\\[A-Za-z]/.test(raw) && value === raw.charCodeAt(1);
  const isSurrogate = value >= 0xd800 && value < 0xe000;
  if (isMeaningless || isSurrogate || /^\\(?:[1-9]|0\d)/.test(raw)) throw new UntranslatableError();
  return String.fromCodePoint(value);
}

/** A member of a set. The engine has operators for sets, which are characters twice. */
function memberCharacter(node: AST.Character): string {
  return escaped(characterOf(node), /[\\^\][&~|-]/);
}

function escaped(char: string, special: RegExp): string {
  if (special.test(char)) return `\\${char}`;
  const code = char.charCodeAt(0);
  return code < 0x20 || code === 0x7f ? `\\x${code.toString(16).padStart(2, "0")}` : char;
}
