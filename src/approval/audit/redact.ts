import { type ExactJson, type ExactObject, isExactList, isExactObject } from "../../json/exact.ts";
import { matchesGlob } from "../rules/match.ts";
import { hmacSha256, sha256 } from "../../json/digest.ts";

/** Names whose values are secrets, in lower case and without separators. */
const SECRET_NAME =
  /password|passwd|passphrase|passcode|pwd$|^pass$|(?:user|db|smtp|login)pass$|secret|apikey|(?:private|access|account|client)key|privkey|authorization|credential|cookie|^token|token$|jwt|^bearer$|^t?otp$|connectionstring|dsn$/;
/** The name of a secret in a text and the quote that may end it, in JSON or in JSON within JSON. */
const NAMED = String
  .raw`(?:password|passwd|passphrase|secret(?:[_-]?access)?(?:[_-]?key)?|token|(?:api|access|account|private)[_-]?key)\\*["']?`;
/** A value: with its quotes, which may be escaped as in JSON within JSON, or else up to a blank or a quote. */
const VALUE = String
  .raw`(?:"(?:[^"\\]|\\[^])*"|\\"(?:[^"\\]|\\\\(?:\\[^]|[^\\]))*\\"|'(?:[^'\\]|\\[^])*'|\\*"[^"]*"|\\*'[^']*'|\\*["']?[^\s"']+)`;
/** A program's option whose value, the next argument, is a secret. */
const OPTION = new RegExp(String.raw`^--[\w-]*${NAMED}$`, "i");
/** Secrets within texts; the first group is kept. Each pattern takes linear time: the texts are hostile. */
const SECRET_TEXTS: readonly RegExp[] = [
  /\b((?:bearer|basic)\s+)[^\s"']+/gi,
  /(:\/\/[^\s/:@]*:)[^\s/?#"]+(?=@)/g, // also with an "@" that should be escaped
  new RegExp(String.raw`(${NAMED}\s*[=:]\s*)${VALUE}`, "gi"),
  new RegExp(String.raw`((?<![\w-])--[\w-]*${NAMED}\s+)(?!-)${VALUE}`, "gi"),
  // Unlike the names above, these are also common in words unrelated to secrets.
  new RegExp(String.raw`(_(?:PASS|PWD)=)${VALUE}`, "g"),
  /([?&;](?:pass|pwd|sig)=)[^\s&;"']+/gi,
  new RegExp(String.raw`\b(sshpass\s+-p\s*)${VALUE}`, "g"),
  // Except the numeric ids of a user and a group.
  /(\s(?:-u|--user|--proxy-user)(?:\s+|=)["']?[^\s:"'/]+:)(?!\d+(?:\s|$))[^\s"']+/g,
  /\b(gh[pousr]_|github_pat_|glpat-|npm_|sk-|[sr]k_(?:live|test)_|xox[abeprs]-|xapp-|dop_v1_|AKIA|ASIA|AIza)[\w-]{8,}/g,
  /\b(hf_)[A-Za-z0-9]{30,}/g,
  /\b(SG\.)[\w-]{16,}\.[\w-]{16,}/g,
  /(hooks\.slack\.com\/services\/)[\w/-]+/g,
  /\b(eyJ)[\w-]{8,}(?:\.[\w-]*)*/g,
];

/** The lines around a private key. The dashes after one may be those before the next one. */
const KEY_BOUND = /-----(BEGIN|END) [A-Z ]*PRIVATE KEY(?: BLOCK)?(?=-----)/g;
const DASHES = 5;

/** Parts of the beginnings of all secrets: most texts contain none, and need no further checks. */
const MAYBE_SECRET =
  /-----BEGIN|bearer|basic|:\/\/|password|passwd|passphrase|secret|token|(?:api|access|account|private)[_-]?key|(?:pass|pwd|sig)=|sshpass|-u[\s=]|-user[\s=]|gh[pousr]_|github_pat_|glpat-|npm_|sk-|[sr]k_(?:live|test)_|xox[abeprs]-|xapp-|dop_v1_|hf_|SG\.|hooks\.slack|AKIA|ASIA|AIza|eyJ/i;

/** Longer texts are not searched: they count as a secret as a whole. */
const MAX_REDACTED = 2 ** 20;
/** The most secrets of a call to replace one by one, since each takes time. */
const MAX_MARKS = 1000;
/** The most texts of a call to search; a name counts as several. More are too long for the log anyway. */
const MAX_TEXTS = 100_000;
const NAME_TEXTS = 5;
const MAX_TEXT = 4096;
const KEPT_TEXT = 1000;
/** The longest JSON of one argument and of all arguments to log. */
const MAX_VALUE = 16 * 1024;
const MAX_JSON = 64 * 1024;
const MAX_DEPTH = 32;

/** Options of {@linkcode redactArguments}. */
export interface RedactOptions {
  /** Patterns for more names whose values are secrets. */
  readonly names?: readonly string[];
  /** The key of the hashes that replace secrets. Without it, the replacement has no hash. */
  readonly key?: Uint8Array;
}

/** Thrown if there is too much to search or to replace. */
class TooMuch extends Error {}

/** Creates the replacements of secrets, and limits the work. */
class Marker {
  readonly #key: Uint8Array | undefined;
  #count = 0;
  #texts = 0;

  constructor(key: Uint8Array | undefined) {
    this.#key = key;
  }

  /**
   * Replaces a secret with a keyed hash, so that code cannot hide something by making it look like
   * a secret.
   */
  mark(secret: string): string {
    if (this.#key === undefined) return "[redacted]";
    if (++this.#count > MAX_MARKS) throw new TooMuch();
    return markOf(secret, this.#key);
  }

  /** Counts searched texts. */
  count(texts: number): void {
    this.#texts += texts;
    if (this.#texts > MAX_TEXTS) throw new TooMuch();
  }
}

/** One word, so that no other pattern matches a part of it. */
function markOf(secret: string, key: Uint8Array): string {
  return `[redacted:${secret.length}:${hmacSha256(key, secret).slice(0, 16)}]`;
}

/**
 * Prepares arguments for a log: replaces a cut part with its size and the SHA-256 of its redacted
 * form.
 */
export function redactArguments(args: ExactObject, options: RedactOptions = {}): ExactJson {
  try {
    return redactAll(args, options);
  } catch (error) {
    if (!(error instanceof TooMuch)) throw error;
    const { key } = options;
    return { omitted: key === undefined ? "[redacted]" : markOf(JSON.stringify(args), key) };
  }
}

function redactAll(args: ExactObject, { names = [], key }: RedactOptions): ExactJson {
  const redacted = redact(args, { names, marker: new Marker(key), depth: 0 });
  if (lengthOf(redacted) <= MAX_JSON || !isExactObject(redacted)) return redacted;
  const shorter = Object.fromEntries(
    Object.entries(redacted).map(([name, value]) => [
      name,
      lengthOf(value) <= MAX_VALUE ? value : summaryOf(value),
    ]),
  );
  return lengthOf(shorter) <= MAX_JSON ? shorter : summaryOf(redacted);
}

/** The length and hash of a value's JSON. */
function summaryOf(value: unknown): ExactObject {
  const text = JSON.stringify(value);
  return { omitted: `${text.length} characters of JSON`, sha256: sha256(text) };
}

/** The place within the arguments, and how secrets are handled there. */
interface Place {
  readonly names: readonly string[];
  readonly marker: Marker;
  readonly depth: number;
}

function redact(value: ExactJson, place: Place): ExactJson {
  const { marker, depth } = place;
  if (typeof value === "string") return withoutSecrets(value, marker);
  if (typeof value !== "object" || value === null) return value;
  if (depth > MAX_DEPTH) return { omitted: `nests too deeply: ${marker.mark(textOf(value))}` };
  const within = { ...place, depth: depth + 1 };
  if (isExactObject(value)) {
    const namesValue = isNameOfSecret(value["name"] ?? value["key"], place);
    return Object.fromEntries(
      Object.entries(value).map(([name, inner]) => [
        withoutSecrets(name, marker),
        namesValue && name === "value" || isSecretName(name, place)
          ? marker.mark(textOf(inner))
          : redact(inner, within),
      ]),
    );
  }
  if (!isExactList(value)) return value;
  const isOfPairs = value.every((inner) => isExactList(inner) && inner.length === 2);
  return value.map((inner, index) => {
    if (isOfPairs && isExactList(inner) && isNameOfSecret(inner[0], place)) {
      return [redact(inner[0] ?? null, within), marker.mark(textOf(inner[1] ?? null))];
    }
    const previous = textOf(value[index - 1] ?? null);
    const isSecret = typeof inner === "string" && !inner.startsWith("-") &&
      OPTION.test(previous);
    return isSecret ? marker.mark(inner) : redact(inner, within);
  });
}

/** Whether a value names a secret, as in `{"name": "DB_PASSWORD", "value": "…"}` and `["Cookie", "…"]`. */
function isNameOfSecret(value: ExactJson | undefined, place: Place): boolean {
  return typeof value === "string" && isSecretName(value, place);
}

function textOf(value: ExactJson): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** Whether the values of a name are secrets. */
function isSecretName(name: string, { names, marker }: Place): boolean {
  marker.count(NAME_TEXTS - 1);
  const plain = name.toLowerCase().replace(/[^a-z0-9]/g, "");
  return SECRET_NAME.test(plain) || names.some((pattern) => matchesGlob(pattern, name) !== "no");
}

/** Replaces common forms of secrets in a text, and shortens a long one. */
function withoutSecrets(text: string, marker: Marker): string {
  marker.count(1);
  if (text.length > MAX_REDACTED) {
    return `[cut: all of ${text.length} characters] ${marker.mark(text)}`;
  }
  let result = text;
  if (MAYBE_SECRET.test(text)) {
    result = withoutKeys(text, marker);
    for (const pattern of SECRET_TEXTS) {
      result = result.replace(
        pattern,
        (match, kept: string) => kept + marker.mark(match.slice(kept.length)),
      );
    }
  }
  if (result.length <= MAX_TEXT) return result;
  const cut = result.length - KEPT_TEXT;
  return `${result.slice(0, KEPT_TEXT)}… [cut: ${cut} of ${result.length} characters, ` +
    `SHA-256 of all ${sha256(result)}]`;
}

/** Replaces private keys, each up to its end marker or the end of the text. */
function withoutKeys(text: string, marker: Marker): string {
  let result = "";
  let done = 0;
  let key: { readonly start: number; readonly body: number } | undefined;
  for (const { 0: bound, 1: kind, index } of text.matchAll(KEY_BOUND)) {
    const end = index + bound.length + DASHES;
    if (kind === "BEGIN") key ??= { start: index, body: end };
    else if (key !== undefined && index >= key.body) {
      result += text.slice(done, key.start) + marker.mark(text.slice(key.start, end));
      done = end;
      key = undefined;
    }
  }
  if (key === undefined) return result + text.slice(done);
  return result + text.slice(done, key.start) + marker.mark(text.slice(key.start));
}

/** The length of a value's JSON, with numbers as they were written. */
function lengthOf(value: ExactJson): number {
  return JSON.stringify(value).length;
}
