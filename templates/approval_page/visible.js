/**
 * Shows untrusted texts so that nothing in them hides or reorders anything.
 *
 * @module
 */
import { el, number } from "./dom.js";

/**
 * Runs of characters that are invisible, change the writing direction, stack on other characters,
 * or push the following text out of sight.
 */
const HIDDEN =
  /\n(?:[ \t]*\n){3,}|([\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800\ufffc\u{13441}\u{13442}\u{16fe4}\u{1d159}\u{1da7f}\u{1da80}]|(?! )\p{Zs}|(?<=\p{M}{3})\p{M})\1*| {64,}/gu;

/** Words that run from right to left. Adjacent ones are also ordered from right to left. */
const RIGHT_TO_LEFT =
  /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]+(?: [\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]+)*/gu;

/** Characters that look like a quote in code but are not. */
const QUOTE_LIKE =
  /([\u00b4\u02b9-\u02bf\u02c8\u02ca\u02cb\u02dd\u02ee\u02f4-\u02f6\u0312-\u0315\u0343\u0374\u0384\u055a-\u055d\u144a\u1cd3\u1fbd-\u1fbf\u1fef\u1ffd\u1ffe\u2018-\u201f\u2032-\u2037\u2057\u275b-\u275e\u3003\u301d-\u301f\u16cc\ua78b\ua78c\uff02\uff07\uff40\u{16f51}\u{16f52}\u{1f676}-\u{1f678}])\1*/gu;
/**
 * Marks that belong to no script, many of which look like quotes, and the character before them.
 */
const MARKED = /[^\p{M}]?(?:(?=\p{Script=Inherited})\p{M})+/gu;
const HIDDEN_IN_CODE = new RegExp(
  `${HIDDEN.source}|${QUOTE_LIKE.source.replace("\\1", "\\2")}|((?=\\p{Script=Inherited})\\p{M})`,
  "gu",
);

/** More than any letter and its marks, in characters. */
const LONGEST_LETTER = 16;

/** More marks than this become plain text: a page of a million elements does not respond. */
const MAX_MARKS = 2000;

/**
 * Creates nodes of a text, with marks for invisible characters.
 *
 * @param text The text.
 * @param options Whether line feeds and tabs stay as they are, as in a block of its own; whether it
 * is code, in which quotes matter.
 * @returns A fragment.
 */
export function visible(text, { lines = false, code = false } = {}) {
  const fragment = document.createDocumentFragment();
  let at = 0;
  let marks = 0;
  let plain = "";
  const letters = code ? lettersWithMarks(text) : new Set();
  for (const match of text.matchAll(code ? HIDDEN_IN_CODE : HIDDEN)) {
    const [run, hidden, quote, loose] = match;
    const character = hidden ?? quote ?? loose ?? run[0];
    if (loose !== undefined && letters.has(match.index)) continue;
    if (lines && (character === "\t" || (character === "\n" && run.length < 4))) continue;
    plain += isolated(text.slice(at, match.index));
    at = match.index + run.length;
    const label = labelOf(character, run);
    if (marks++ < MAX_MARKS) {
      fragment.append(plain, el("span", { class: "mark", title: nameOf(character) }, label));
      plain = lines && character === "\n" ? "\n" : "";
    } else {
      plain += `‹${label}›`;
    }
  }
  fragment.append(plain + isolated(text.slice(at)));
  return fragment;
}

/** The positions of marks that are part of a letter, as in most European languages. */
function lettersWithMarks(text) {
  const places = new Set();
  for (const { 0: found, index } of text.matchAll(MARKED)) {
    // The time to put marks in order grows with the square of their number.
    if (found.length > LONGEST_LETTER || /^\p{M}/u.test(found)) continue;
    if ([...found.normalize("NFC")].length > 1) continue;
    for (let at = index + 1; at < index + found.length; at++) places.add(at);
  }
  return places;
}

/** Keeps words that run from right to left from reordering the text around them. */
function isolated(text) {
  return text.replace(RIGHT_TO_LEFT, "\u2068$&\u2069");
}

/** An untrusted text in one line: a name, a title, a command. */
export function foreign(text, properties = {}) {
  const { class: name = "", ...others } = properties;
  return el("span", { ...others, class: `foreign ${name}`.trim(), dir: "ltr" }, visible(text));
}

/** Escapes everything {@linkcode HIDDEN} in a JSON text. */
export function escapeHidden(json) {
  return json.replace(HIDDEN, (run) => run.startsWith(" ") ? run : escapeUnits(run));
}

/** Whether nothing in a text is {@linkcode HIDDEN}, except line feeds and tabs. */
export function isPlain(text) {
  const inOneLine = text.replace(/[\n\t]/g, " ");
  return escapeHidden(inOneLine) === inOneLine;
}

function escapeUnits(text) {
  let escaped = "";
  for (let at = 0; at < text.length; at++) {
    escaped += `\\u${text.charCodeAt(at).toString(16).padStart(4, "0")}`;
  }
  return escaped;
}

function labelOf(character, run) {
  const times = run.length / character.length;
  const code = character.codePointAt(0) ?? 0;
  const point = character === " "
    ? "space"
    : `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
  if (character === "\n" && /[^\n]/.test(run)) {
    return `${number(run.split("\n").length - 2)} blank lines`;
  }
  return times > 1 ? `${point} ×${number(times)}` : point;
}

function nameOf(character) {
  if (/^\p{M}/u.test(character)) return "a mark that is not part of a letter";
  return character.search(QUOTE_LIKE) !== -1
    ? `${character} only looks like a quote`
    : "an invisible character";
}
