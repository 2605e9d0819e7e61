import { type ExactJson, type ExactObject, isExactObject } from "../json/exact.ts";
import { matchesGlob } from "../policy/match.ts";
import { sha256 } from "../json/digest.ts";

/** What stands where a secret was. */
const REDACTED = "[redacted]";
/** Names whose values are secrets, once they are in lower case and without separators. */
const SECRET_NAME =
  /password|passwd|passphrase|secret|apikey|privatekey|accesskey|authorization|credential|cookie|^token|token$/;
/** The name of a secret in a text, and what ends it: a quote of JSON, also of JSON within JSON. */
const NAMED = String.raw`(?:password|passwd|passphrase|secret|token|api[_-]?key)\\*["']?`;
const VALUE = String.raw`(?:\\*"[^"]*"|\\*'[^']*'|[^\s"']+)`;
/**
 * Secrets within texts, such as shell commands. Each takes time in proportion to the text, which is
 * hostile.
 */
const SECRET_TEXTS: readonly (readonly [pattern: RegExp, kept: string])[] = [
  [/-----BEGIN [A-Z ]*PRIVATE KEY-----[^]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)/g, ""],
  [/\b(bearer|basic)\s+[^\s"']+/gi, "$1 "],
  [/(:\/\/[^\s/:@]*:)[^\s/@]+(?=@)/g, "$1"],
  [new RegExp(String.raw`(${NAMED}\s*[=:]\s*)${VALUE}`, "gi"), "$1"],
  [new RegExp(String.raw`((?<![\w-])--[\w-]*${NAMED}\s+)(?!-)${VALUE}`, "gi"), "$1"],
  [/\b(gh[pousr]_|github_pat_|glpat-|npm_|sk-|xox[abp]-|AKIA|ASIA|AIza)[\w-]{8,}/g, "$1"],
  [/\b(eyJ)[\w-]{8,}(?:\.[\w-]*)*/g, "$1"],
];

/** Something of what each of them begins with: most texts have none of it, and are done with. */
const MAYBE_SECRET =
  /-----BEGIN|bearer|basic|:\/\/|password|passwd|passphrase|secret|token|api[_-]?key|gh[pousr]_|github_pat_|glpat-|npm_|sk-|xox[abp]-|AKIA|ASIA|AIza|eyJ/i;

/** Longer texts are not even looked at, and nothing of them is logged. */
const MAX_REDACTED = 2 ** 20;
const MAX_TEXT = 4096;
const KEPT_TEXT = 1000;
/** The longest JSON of one argument, and of all, that is logged. */
const MAX_VALUE = 16 * 1024;
const MAX_JSON = 64 * 1024;
const MAX_DEPTH = 32;

/**
 * Makes arguments fit for a log: first without secrets, then not too long. What is cut is named by
 * the SHA-256 of all of it, without its secrets.
 *
 * @param args The arguments.
 * @param names Patterns for further names whose values are secrets.
 * @returns What is logged.
 */
export function redactArguments(args: ExactObject, names: readonly string[] = []): ExactJson {
  const redacted = redact(args, names, 0);
  if (lengthOf(redacted) <= MAX_JSON || !isExactObject(redacted)) return redacted;
  const shorter = Object.fromEntries(
    Object.entries(redacted).map(([name, value]) => [
      name,
      lengthOf(value) <= MAX_VALUE ? value : summaryOf(value),
    ]),
  );
  return lengthOf(shorter) <= MAX_JSON ? shorter : summaryOf(redacted);
}

/**
 * Says of JSON how long it is and which.
 *
 * @param value The JSON, without secrets.
 * @returns What stands in its place.
 */
export function summaryOf(value: unknown): ExactObject {
  const text = JSON.stringify(value);
  return { omitted: `${text.length} characters of JSON`, sha256: sha256(text) };
}

function redact(value: ExactJson, names: readonly string[], depth: number): ExactJson {
  if (typeof value === "string") return redactText(value);
  if (typeof value !== "object" || value === null) return value;
  if (depth > MAX_DEPTH) return { omitted: "nests too deeply" };
  if (isExactObject(value)) {
    return Object.fromEntries(
      Object.entries(value).map(([name, inner]) => [
        redactText(name),
        isSecretName(name, names) ? REDACTED : redact(inner, names, depth + 1),
      ]),
    );
  }
  return isList(value) ? value.map((inner) => redact(inner, names, depth + 1)) : value;
}

/**
 * Whether the values of a name are secrets.
 *
 * @param name The name.
 * @param patterns Patterns for further names.
 * @returns Whether it is such a name.
 */
export function isSecretName(name: string, patterns: readonly string[] = []): boolean {
  const plain = name.toLowerCase().replace(/[^a-z0-9]/g, "");
  return SECRET_NAME.test(plain) || patterns.some((pattern) => matchesGlob(pattern, name));
}

/**
 * Leaves usual forms of secrets out of a text, and shortens one that is long.
 *
 * @param text The text.
 * @returns What is shown of it.
 */
export function redactText(text: string): string {
  if (text.length > MAX_REDACTED) return `[cut: all of ${text.length} characters]`;
  let result = text;
  if (MAYBE_SECRET.test(text)) {
    for (const [pattern, kept] of SECRET_TEXTS) {
      result = result.replace(pattern, `${kept}${REDACTED}`);
    }
  }
  if (result.length <= MAX_TEXT) return result;
  const cut = result.length - KEPT_TEXT;
  return `${result.slice(0, KEPT_TEXT)}… [cut: ${cut} of ${result.length} characters, ` +
    `SHA-256 of all ${sha256(result)}]`;
}

/** Of exact JSON, which writes itself as it came. */
function lengthOf(value: ExactJson): number {
  return JSON.stringify(value).length;
}

function isList(value: ExactJson): value is readonly ExactJson[] {
  return Array.isArray(value);
}
