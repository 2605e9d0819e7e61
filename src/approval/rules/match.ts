/**
 * Three-valued matching: uncertainty must neither allow a call nor let it bypass a rule that denies
 * it.
 *
 * @module
 */

/** Whether a condition holds; `"maybe"` if that is unknown before the call runs. */
export type Match = "yes" | "maybe" | "no";

/** Whether all conditions hold. */
export function all(matches: Iterable<Match>): Match {
  let result: Match = "yes";
  for (const match of matches) {
    if (match === "no") return "no";
    if (match === "maybe") result = "maybe";
  }
  return result;
}

/** Whether any condition holds. */
export function any(matches: Iterable<Match>): Match {
  let result: Match = "no";
  for (const match of matches) {
    if (match === "yes") return "yes";
    if (match === "maybe") result = "maybe";
  }
  return result;
}

/** Whether a condition does not hold. */
export function not(match: Match): Match {
  return match === "yes" ? "no" : match === "no" ? "yes" : "maybe";
}

/** `"yes"` or `"no"`. */
export function sure(holds: boolean): Match {
  return holds ? "yes" : "no";
}

/** A value as a list of one, unless it is a list. */
export function many<T>(value: T | readonly T[]): readonly T[] {
  return Array.isArray(value) ? value : [value as T]; // isArray() does not narrow readonly arrays
}

/** Longer texts are not examined. */
export const MAX_TEXT: number = 2 ** 20;
/** The most comparisons of a text with a pattern: a few for each character of the longest text. */
const MAX_STEPS = 2 ** 22;

/**
 * Matches a text against a pattern: `*` stands for any characters including slashes, `?` for one
 * character, and a backslash makes the next character literal.
 *
 * The text may be hostile, and so may the pattern, which may have come with a repository: nothing is
 * copied, and if matching takes too many steps, the result is `"maybe"`.
 */
export function matchesGlob(pattern: string, text: string): Match {
  return matchGlob(globItems(pattern), text);
}

/** Like {@linkcode matchesGlob}, for a pattern parsed by {@linkcode globItems}. */
export function matchGlob(items: Glob, text: string): Match {
  let [item, at, star, resume] = [0, 0, -1, 0];
  for (let steps = 1; at < text.length; steps++) {
    if (steps > MAX_STEPS) return "maybe";
    const wanted = items[item];
    if (wanted === ANY) {
      if (item === items.length - 1) return "yes";
      star = item++;
      resume = at;
    } else if (wanted === ONE || (wanted !== undefined && wanted === text.codePointAt(at))) {
      item++;
      at = nextCharacter(text, at);
    } else if (star >= 0) {
      item = star + 1;
      at = resume = nextCharacter(text, resume);
    } else {
      return "no";
    }
  }
  while (items[item] === ANY) item++;
  return sure(item === items.length);
}

/** A parsed pattern: code points, and numbers below 0 for its wildcards. */
export type Glob = readonly number[];

const ANY = -1;
const ONE = -2;

export function globItems(pattern: string): Glob {
  const items: number[] = [];
  let escaped = false;
  for (const character of pattern) {
    const code = character.codePointAt(0) ?? 0;
    if (escaped) {
      items.push(code);
      escaped = false;
    } else if (character === "\\") escaped = true;
    else items.push(character === "*" ? ANY : character === "?" ? ONE : code);
  }
  if (escaped) items.push(0x5c);
  return items;
}

function nextCharacter(text: string, at: number): number {
  return at + ((text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1);
}

/** Whether a text has a `..` between slashes, so that its beginning does not determine where it leads. */
export function hasParentPart(text: string): boolean {
  const plain = withoutLookalikes(text);
  return /(^|[/\\])(\.|%2e){2}([/\\?#]|$)/i.test(plain) || /%2f|%5c/i.test(plain);
}

/** The same path without redundant parts: double slashes, `.`, a trailing slash, and encoded ASCII. */
export function cleanPath(text: string): string {
  const plain = withoutLookalikes(text)
    .replace(/%([2-7][0-9a-f])/gi, (_, hex) => String.fromCharCode(parseInt(hex, 16)))
    .replaceAll("\\", "/");
  const scheme = /^[a-z][a-z0-9+.-]{0,30}:\/\//i.exec(plain)?.[0] ?? "";
  const path = plain.slice(scheme.length)
    .replace(/^(?:\.\/+)+/, "")
    .replace(/\/(?:\.?\/)+/g, "/")
    .replace(/(?<=.)\/\.?$/, "");
  return scheme + path;
}

/**
 * Replaces look-alikes of dots and slashes. Removes tabs and line breaks, as parsers of URLs do, and
 * marks and ligatures, which take long to normalize.
 */
function withoutLookalikes(text: string): string {
  return text.replace(/[\t\n\r\p{M}\ufb50-\ufdff]+/gu, "").normalize("NFKC");
}

/** Longer URLs are not parsed. */
const MAX_URL = 4096;
const URL_SCHEME = /^(?:https?|wss?|ftp|file):$/;

/** A URL as browsers write it, without a user; `"unknown"` if it is too long, `undefined` for other texts. */
export function urlText(text: string): string | undefined {
  if (!text.includes(":")) return undefined;
  // deno-lint-ignore no-control-regex -- parsers of URLs or their callers remove them, too
  const bare = text.replace(/^[\x00-\x20\x85\s]+|[\t\n\r]+/g, "");
  const url = URL.parse(bare.slice(0, MAX_URL));
  if (url === null || !URL_SCHEME.test(url.protocol)) return undefined;
  [url.username, url.password] = ["", ""];
  return bare.length > MAX_URL ? "unknown" : url.href;
}
