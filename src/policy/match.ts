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

/**
 * Matches a text against a pattern in which `*` stands for any characters, slashes too, `?` for one,
 * and a backslash takes the next character as it is.
 *
 * Takes time proportional to both lengths at worst: patterns meet hostile text.
 *
 * @param pattern The pattern.
 * @param text The text, all of which must match.
 * @returns Whether it does.
 */
export function matchesGlob(pattern: string, text: string): boolean {
  const items = globItems(pattern);
  const characters = [...text];
  let [item, at, star, resume] = [0, 0, -1, 0];
  while (at < characters.length) {
    const wanted = items[item];
    if (wanted === ANY) {
      star = item++;
      resume = at;
    } else if (wanted === ONE || (wanted !== undefined && wanted === characters[at])) {
      item++;
      at++;
    } else if (star >= 0) {
      item = star + 1;
      at = ++resume;
    } else {
      return false;
    }
  }
  while (items[item] === ANY) item++;
  return item === items.length;
}

const ANY = Symbol("any characters");
const ONE = Symbol("one character");

function globItems(pattern: string): (string | typeof ANY | typeof ONE)[] {
  const items: (string | typeof ANY | typeof ONE)[] = [];
  let escaped = false;
  for (const character of pattern) {
    if (escaped) {
      items.push(character);
      escaped = false;
    } else if (character === "\\") escaped = true;
    else items.push(character === "*" ? ANY : character === "?" ? ONE : character);
  }
  if (escaped) items.push("\\");
  return items;
}

/** Whether a text has a `..` between slashes, so that what it starts with says little of where it leads. */
export function climbs(text: string): boolean {
  const plain = text.normalize("NFKC"); // some servers take look-alikes for dots and slashes
  return /(^|[/\\])(\.|%2e){2}([/\\?#]|$)/i.test(plain) || /%2f|%5c/i.test(plain);
}
