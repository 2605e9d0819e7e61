import { sha256 } from "../json/digest.ts";
import {
  type ExactJson,
  type ExactObject,
  isExactObject,
  isRawNumber,
  parseExact,
  stringifyExact,
} from "../json/exact.ts";

/** The name of a call: server and tool. */
interface CallName {
  readonly serverName: string;
  readonly toolName: string;
}

/** The parts of a call that determine what runs. */
interface CallContent extends CallName {
  readonly kind: string;
  readonly arguments: ExactObject;
}

/** A request, whose arguments are text. */
interface RequestText extends Omit<CallContent, "arguments"> {
  readonly argumentsJson: string;
}

/**
 * Formats a call as Python would, and escapes everything that could mislead a terminal or a reader.
 */
export function describeCall(call: CallContent): string {
  const named: string[] = [];
  const others: string[] = [];
  for (const [name, value] of Object.entries(call.arguments)) {
    (IDENTIFIER.test(name) ? named : others).push(describeArgument(name, value));
  }
  if (others.length > 0) named.push(`**{${others.join(", ")}}`);
  return `${callName(call)}(${named.join(", ")})`;
}

/** Formats an argument of a call as Python would. */
export function describeArgument(name: string, value: ExactJson): string {
  return IDENTIFIER.test(name)
    ? `${name}=${describeValue(value)}`
    : `${quoted(name)}: ${describeValue(value)}`;
}

export function callName({ serverName, toolName }: CallName): string {
  return `${plainName(serverName)}.${plainName(toolName)}`;
}

/** The call of a request, optionally with other arguments. */
export function callOf(
  { kind, serverName, toolName, argumentsJson: asked }: RequestText,
  argumentsJson: string = asked,
): CallContent {
  const args = parseExact(argumentsJson);
  return { kind, serverName, toolName, arguments: isExactObject(args) ? args : {} };
}

/** Formats a call with each argument on its own line, so that no value can imitate another argument. */
export function callLines(call: CallContent): string[] {
  const args = Object.entries(call.arguments);
  if (args.length === 0) return [`${callName(call)}()`];
  const lines = args.map(([name, value]) => `  ${describeArgument(name, value)}`);
  return [`${callName(call)}(`, ...lines, ")"];
}

/** Escapes characters that are invisible, move the cursor, reorder or stack; counts long runs of spaces. */
export function visible(text: string): string {
  return text.replace(HIDDEN_OR_BLANKS, (found, at: number) => {
    if (!found.startsWith(" ")) return escapeCharacter(found);
    if (found.length <= MAX_BLANKS) return found;
    const isIndentation = found.length <= MAX_INDENTATION && (at === 0 || text[at - 1] === "\n");
    return isIndentation ? found : `⟨${found.length} blanks⟩`;
  });
}

/**
 * Quotes text from code or a server within a text for a person, so that it cannot pass for ours and
 * hides nothing.
 *
 * Each line begins with four spaces and a mark. Markdown renders that as a code block: comments, links
 * and quotes in it have no effect, and nothing in it can end the block.
 */
export function foreignBlock(lines: readonly string[]): string {
  return lines.map((line) => `    | ${visible(line)}`).join("\n");
}

/** Like {@linkcode visible}, for code: also escapes characters that look like quotes. */
export function visibleCode(code: string): string {
  return withoutLooseMarks(visible(code)).replace(QUOTE_LIKE, escapeCharacter);
}

/** Replaces the characters that {@linkcode visible} escapes. */
export function escapeHidden(text: string, escape: (character: string) => string): string {
  return text.replace(HIDDEN, escape);
}

/** Formats a text as a Python string. */
export function quoted(text: string): string {
  const escaped = withoutLooseMarks(visible(text.replace(/['\\]/g, "\\$&")));
  const inWord = (at: number) =>
    LETTER.test(escaped[at - 1] ?? "") && LETTER.test(escaped[at + 1] ?? "");
  // The apostrophe of a word, as in "don’t", does not end a string.
  const shown = escaped.replace(
    QUOTE_LIKE,
    (character, at: number) =>
      character === "\u2019" && inWord(at) ? character : escapeCharacter(character),
  );
  return `'${shown}'`;
}

/** Escapes marks that belong to no script, many of which look like quotes, unless they form a letter. */
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
 * Control and format characters, unusual spaces, characters that fonts do not draw, and more than
 * three marks on one character. Then letters and symbols with a blank glyph, for which Unicode has
 * no property: Braille, hieroglyphs, music. Then the blocks of right-to-left scripts, which reorder
 * the text between their characters.
 */
const HIDDEN =
  /[\p{C}\p{Zl}\p{Zp}\p{DI}\u2800\ufffc\u{13441}\u{13442}\u{16fe4}\u{1d159}\u{1da7f}\u{1da80}\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]|(?! )\p{Zs}|(?<=\p{M}{3})\p{M}/gu;
/** Long runs of spaces push text out of sight; the character could imitate their number. */
const HIDDEN_OR_BLANKS = new RegExp(`${HIDDEN.source}|\u27e8| +`, "gu");
/** The most consecutive spaces to show unchanged. */
const MAX_BLANKS = 20;
/** The most spaces of indentation to show unchanged. */
const MAX_INDENTATION = 60;
/** Characters that fonts draw like quotes, and marks that add one to a letter. */
const QUOTE_LIKE =
  /[\u00b4\u02b9-\u02bf\u02c8\u02ca\u02cb\u02dd\u02ee\u02f4-\u02f6\u0312-\u0315\u0343\u0374\u0384\u055a-\u055d\u144a\u1cd3\u1fbd-\u1fbf\u1fef\u1ffd\u1ffe\u2018-\u201f\u2032-\u2037\u2057\u275b-\u275e\u3003\u301d-\u301f\u16cc\ua78b\ua78c\uff02\uff07\uff40\u{16f51}\u{16f52}\u{1f676}-\u{1f678}]/gu;

/** The beginning of a text, with its length if anything was cut. */
export function shortened(text: string, max: number): string {
  return text.length <= max ? text : `${text.slice(0, max)}… (${text.length} characters)`;
}

/** Formats a value as Python would. */
export function describeValue(value: ExactJson): string {
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (typeof value === "string") return quoted(value);
  if (typeof value === "number") return String(value);
  if (isRawNumber(value)) return value.rawJSON;
  if (isExactObject(value)) {
    const items = Object.entries(value).map(([name, inner]) =>
      `${quoted(name)}: ${describeValue(inner)}`
    );
    return `{${items.join(", ")}}`;
  }
  return Array.isArray(value) ? `[${value.map(describeValue).join(", ")}]` : "";
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

/** Creates a random id that contains the call's hash, so that an answer refers to exactly that call. */
export function requestId(call: CallContent): string {
  return `${crypto.randomUUID()}.${callHash(call)}`;
}

export function isIdOf(id: string, call: CallContent): boolean {
  const [, hash] = id.split(".", 2);
  return hash === undefined || hash === callHash(call);
}

/**
 * The hash of everything that determines what runs: kind, server, tool, and the arguments as sent.
 */
export function callHash({ kind, serverName, toolName, arguments: args }: CallContent): string {
  return sha256(stringifyExact([kind, serverName, toolName, args]));
}

/** The largest call to ask a person about, in bytes of JSON: more than anyone reads. */
export const MAX_SHOWN_BYTES: number = 256 * 1024;

/** Whether a call is too large to show to a person. */
export function isTooLargeToShow({ serverName, toolName, arguments: args }: CallContent): boolean {
  const shown = JSON.stringify([serverName, toolName, args]);
  return new TextEncoder().encode(shown).length > MAX_SHOWN_BYTES;
}
