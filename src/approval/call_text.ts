import { sha256 } from "../json/digest.ts";
import {
  type ExactJson,
  isExactObject,
  isRawNumber,
  parseExact,
  stringifyExact,
} from "../json/exact.ts";
import type { ApprovalCall, ApprovalRequest } from "./request.ts";

/**
 * Writes a call as Python would, all of it, with whatever could fool a terminal or a reader escaped.
 */
export function describeCall(call: ApprovalCall): string {
  const named: string[] = [];
  const others: string[] = [];
  for (const [name, value] of Object.entries(call.arguments)) {
    (IDENTIFIER.test(name) ? named : others).push(describeArgument(name, value));
  }
  if (others.length > 0) named.push(`**{${others.join(", ")}}`);
  return `${callName(call)}(${named.join(", ")})`;
}

/** Writes an argument of a call as Python would. */
export function describeArgument(name: string, value: ExactJson): string {
  return IDENTIFIER.test(name) ? `${name}=${literal(value)}` : `${quoted(name)}: ${literal(value)}`;
}

/** What a call names: server and tool. */
interface CallName {
  /** The registered server. */
  readonly serverName: string;
  /** The tool. */
  readonly toolName: string;
}

/** Writes what a call names. */
export function callName({ serverName, toolName }: CallName): string {
  return `${plainName(serverName)}.${plainName(toolName)}`;
}

/** The call of a request. */
export function callOf(
  { kind, serverName, toolName, argumentsJson: asked }: ApprovalRequest,
  argumentsJson: string = asked,
): ApprovalCall {
  const args = parseExact(argumentsJson);
  return { kind, serverName, toolName, arguments: isExactObject(args) ? args : {} };
}

/**
 * Writes a call with each argument on separate lines, so that no value can pass for another one.
 */
export function callLines(call: ApprovalCall): string[] {
  const args = Object.entries(call.arguments);
  if (args.length === 0) return [`${callName(call)}()`];
  const lines = args.map(([name, value]) => `  ${describeArgument(name, value)}`);
  return [`${callName(call)}(`, ...lines, ")"];
}

/**
 * Makes a text visible, whatever is in it: what is invisible, moves the cursor, turns or reorders
 * what is read, or piles up marks is shown as an escape, and many blanks as their number.
 */
export function visible(text: string): string {
  return text.replace(HIDDEN_OR_BLANKS, (found, at: number) => {
    if (!found.startsWith(" ")) return escapeCharacter(found);
    if (found.length <= MAX_BLANKS) return found;
    const isIndentation = found.length <= MAX_INDENTATION && (at === 0 || text[at - 1] === "\n");
    return isIndentation ? found : `⟨${found.length} blanks⟩`;
  });
}

/**
 * Makes code visible, such as a shell command: like {@linkcode visible}, and what looks like a quote
 * but is none is shown as an escape, too.
 */
export function visibleCode(code: string): string {
  return withoutLooseMarks(visible(code)).replace(QUOTE_LIKE, escapeCharacter);
}

/** Escapes what {@linkcode visible} shows as escapes. */
export function escapeHidden(text: string, escape: (character: string) => string): string {
  return text.replace(HIDDEN, escape);
}

/** Writes a text as Python would. */
export function quoted(text: string): string {
  const escaped = withoutLooseMarks(visible(text.replace(/['\\]/g, "\\$&")));
  const inWord = (at: number) =>
    LETTER.test(escaped[at - 1] ?? "") && LETTER.test(escaped[at + 1] ?? "");
  // The apostrophe of a word, as in "don’t", ends no text.
  const shown = escaped.replace(
    QUOTE_LIKE,
    (character, at: number) =>
      character === "\u2019" && inWord(at) ? character : escapeCharacter(character),
  );
  return `'${shown}'`;
}

/** Marks of no script, many of which fonts draw like quotes, stay only where they make up a letter. */
function withoutLooseMarks(text: string): string {
  return text.replace(
    /[^\p{M}](?:(?=\p{Script=Inherited})\p{M})+|(?=\p{Script=Inherited})\p{M}/gu,
    (found) => {
      if ([...found.normalize("NFC")].length === 1 && !/^\p{M}/u.test(found)) return found;
      return found.replace(/\p{M}/gu, escapeCharacter);
    },
  );
}

function plainName(name: string): string {
  return PLAIN_NAME.test(name) ? name : quoted(name);
}

const IDENTIFIER = /^[A-Za-z_][A-Za-z0-9_]*$/;
const PLAIN_NAME = /^[A-Za-z0-9_./:-]+$/;
const LETTER = /^[A-Za-z\u00c0-\u024f]$/;
/**
 * Controls and what Unicode has for formatting, spaces that are not the usual one, what fonts show
 * nothing for, and more than three marks on one character. Then letters and symbols whose glyph is
 * blank, for which Unicode has no property, as of Braille, hieroglyphs and music. Then the blocks
 * whose letters and digits run from right to left: what stands between two of them changes places.
 */
const HIDDEN =
  /[\p{C}\p{Zl}\p{Zp}\p{DI}\u2800\ufffc\u{13441}\u{13442}\u{16fe4}\u{1d159}\u{1da7f}\u{1da80}\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]|(?! )\p{Zs}|(?<=\p{M}{3})\p{M}/gu;
/** More blanks than people write, which push what follows out of sight; and what could pass for their number. */
const HIDDEN_OR_BLANKS = new RegExp(`${HIDDEN.source}|\u27e8| +`, "gu");
/** The most blanks in a row that are shown as they are. */
const MAX_BLANKS = 20;
/** The blanks at the start of a line that are shown as they are. */
const MAX_INDENTATION = 60;
/** Characters that fonts draw like the quotes of code, and marks that put one on a letter. */
const QUOTE_LIKE =
  /[\u00b4\u02b9-\u02bf\u02c8\u02ca\u02cb\u02dd\u02ee\u02f4-\u02f6\u0312-\u0315\u0343\u0374\u0384\u055a-\u055d\u144a\u1cd3\u1fbd-\u1fbf\u1fef\u1ffd\u1ffe\u2018-\u201f\u2032-\u2037\u2057\u275b-\u275e\u3003\u301d-\u301f\u16cc\ua78b\ua78c\uff02\uff07\uff40\u{16f51}\u{16f52}\u{1f676}-\u{1f678}]/gu;

function literal(value: ExactJson): string {
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (typeof value === "string") return quoted(value);
  if (typeof value === "number") return String(value);
  if (isRawNumber(value)) return value.rawJSON;
  if (isExactObject(value)) {
    const items = Object.entries(value).map(([name, inner]) =>
      `${quoted(name)}: ${literal(inner)}`
    );
    return `{${items.join(", ")}}`;
  }
  return Array.isArray(value) ? `[${value.map(literal).join(", ")}]` : "";
}

function escapeCharacter(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  if (character === "\n") return "\\n";
  if (character === "\r") return "\\r";
  if (character === "\t") return "\\t";
  if (code < 0x100) return `\\x${code.toString(16).padStart(2, "0")}`;
  if (code < 0x10000) return `\\u${code.toString(16).padStart(4, "0")}`;
  return `\\U${code.toString(16).padStart(8, "0")}`;
}

/**
 * Makes the id of a request: random, and bound to the call by its hash, so that an answer names the
 * very call that it is about.
 */
export function requestId(call: ApprovalCall): string {
  return `${crypto.randomUUID()}.${callHash(call)}`;
}

/** Checks that an id is that of a call. */
export function isIdOf(id: string, call: ApprovalCall): boolean {
  const [, hash] = id.split(".", 2);
  return hash === undefined || hash === callHash(call);
}

/** The hash of all that is run: what asks, at which server, which tool, and the arguments as sent. */
export function callHash({ kind, serverName, toolName, arguments: args }: ApprovalCall): string {
  return sha256(stringifyExact([kind, serverName, toolName, args]));
}

/** The longest call that a person is asked about, as bytes of JSON: more than anybody reads. */
export const MAX_SHOWN_BYTES: number = 256 * 1024;

/** Whether a call is too large to be shown to a person. Takes little time for calls of any size. */
export function isTooLargeToShow({ serverName, toolName, arguments: args }: ApprovalCall): boolean {
  const shown = [serverName, toolName, args];
  if (lengthUpTo(MAX_SHOWN_BYTES, shown) > MAX_SHOWN_BYTES) return true;
  return new TextEncoder().encode(stringifyExact(shown)).length > MAX_SHOWN_BYTES;
}

/** At most as long as the JSON of a value; stops counting above a limit. */
function lengthUpTo(limit: number, value: ExactJson): number {
  if (typeof value === "string") return value.length;
  if (isExactObject(value)) {
    let length = 1;
    for (const name in value) {
      length += name.length + lengthUpTo(limit, value[name] ?? null);
      if (length > limit) break;
    }
    return length;
  }
  if (!Array.isArray(value)) return 1;
  let length = 1;
  for (const item of value) {
    length += lengthUpTo(limit, item);
    if (length > limit) break;
  }
  return length;
}
