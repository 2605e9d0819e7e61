import { type ExactJson, type ExactObject, isExactObject, stringifyExact } from "../json/exact.ts";
import { matchesGlob } from "../policy/match.ts";
import { sha256 } from "../json/digest.ts";

/** What stands where a secret was. */
const REDACTED = "[redacted]";
/** Names whose values are secrets, once they are in lower case and without separators. */
const SECRET_NAME =
  /password|passwd|passphrase|secret|apikey|privatekey|accesskey|authorization|credential|cookie|^token|token$/;
/** Secrets within texts, such as shell commands. */
const SECRET_TEXTS: readonly (readonly [pattern: RegExp, kept: string])[] = [
  [/\b(bearer|basic)\s+[^\s"']+/gi, "$1 "],
  [/(:\/\/[^\s/:@]*:)[^\s/@]+(?=@)/g, "$1"],
  [
    /((?:password|passwd|passphrase|secret|token|api[_-]?key)["']?\s*[=:]\s*)("[^"]*"|'[^']*'|[^\s"']+)/gi,
    "$1",
  ],
  [/\b(gh[pousr]_|github_pat_|sk-|xox[abp]-|AKIA)[\w-]{8,}/g, "$1"],
];

const MAX_TEXT = 4096;
const KEPT_TEXT = 1000;
const MAX_HASHED = 2 ** 20;
const MAX_JSON = 64 * 1024;
const MAX_DEPTH = 32;

/**
 * Makes arguments fit for a log: without secrets, and not too long.
 *
 * @param args The arguments.
 * @param names Patterns for further names whose values are secrets.
 * @returns What is logged.
 */
export function redactArguments(args: ExactObject, names: readonly string[] = []): ExactJson {
  const redacted = redact(args, names, 0);
  const text = stringifyExact(redacted);
  return text.length <= MAX_JSON ? redacted : { omitted: `${text.length} characters of JSON` };
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
  const long = text.length > MAX_TEXT;
  let result = long ? text.slice(0, KEPT_TEXT) : text;
  for (const [pattern, kept] of SECRET_TEXTS) {
    result = result.replace(pattern, `${kept}${REDACTED}`);
  }
  if (!long) return result;
  const hash = text.length <= MAX_HASHED ? `, SHA-256 ${sha256(text)}` : "";
  return `${result}… [${text.length} characters${hash}]`;
}

function isList(value: ExactJson): value is readonly ExactJson[] {
  return Array.isArray(value);
}
