/**
 * Three-valued matching: what is not known for sure must neither allow a call nor let it slip past
 * a rule that denies it.
 *
 * @module
 */

/** Whether a condition holds; `"maybe"` where that cannot be told before the call runs. */
export type Match = "yes" | "maybe" | "no";

/** Whether all hold. */
export function all(matches: Iterable<Match>): Match {
  let result: Match = "yes";
  for (const match of matches) {
    if (match === "no") return "no";
    if (match === "maybe") result = "maybe";
  }
  return result;
}

/** Whether one of them holds. */
export function any(matches: Iterable<Match>): Match {
  let result: Match = "no";
  for (const match of matches) {
    if (match === "yes") return "yes";
    if (match === "maybe") result = "maybe";
  }
  return result;
}

/** Whether it does not hold. */
export function not(match: Match): Match {
  return match === "yes" ? "no" : match === "no" ? "yes" : "maybe";
}

/** `"yes"` or `"no"`. */
export function sure(holds: boolean): Match {
  return holds ? "yes" : "no";
}

/** A list of one, where only one was given. */
export function many<T>(value: T | readonly T[]): readonly T[] {
  return Array.isArray(value) ? value : [value as T]; // isArray() does not narrow readonly arrays
}

/** Longer texts are not looked at. */
export const MAX_TEXT: number = 2 ** 20;
/** The most comparisons for one text and pattern: a few for each character of the longest text. */
const MAX_STEPS = 2 ** 22;

/**
 * Matches a text against a pattern in which `*` stands for any characters, slashes too, `?` for one,
 * and a backslash takes the next character as it is.
 *
 * Patterns meet hostile text: nothing is copied, and what takes too many steps is left open.
 */
export function matchesGlob(pattern: string, text: string): Match {
  const items = globItems(pattern);
  let [item, at, star, resume] = [0, 0, -1, 0];
  for (let steps = 0; at < text.length; steps++) {
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

const ANY = -1;
const ONE = -2;

/** The code points of a pattern, {@linkcode ANY} and {@linkcode ONE}. */
function globItems(pattern: string): number[] {
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

/** Whether a text has a `..` between slashes, so that what it starts with says little of where it leads. */
export function climbs(text: string): boolean {
  const plain = withoutLookalikes(text);
  return /(^|[/\\])(\.|%2e){2}([/\\?#]|$)/i.test(plain) || /%2f|%5c/i.test(plain);
}

/** The same place without what leads nowhere: doubled slashes, `.` and a slash at the end. */
export function cleanPath(text: string): string {
  const plain = withoutLookalikes(text).replaceAll("\\", "/").replace(/%2e/gi, ".");
  const scheme = /^[a-z][a-z0-9+.-]{0,30}:\/\//i.exec(plain)?.[0] ?? "";
  const path = plain.slice(scheme.length)
    .replace(/^(?:\.\/+)+/, "")
    .replace(/\/(?:\.?\/)+/g, "/")
    .replace(/(?<=.)\/\.?$/, "");
  return scheme + path;
}

/**
 * Some servers take look-alikes for dots and slashes. Marks, of which long runs take long to be put in
 * order, and Arabic ligatures, which become up to 18 letters, are none.
 */
function withoutLookalikes(text: string): string {
  return text.replace(/[\p{M}\ufb50-\ufdff]+/gu, "").normalize("NFKC");
}
