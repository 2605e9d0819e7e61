/**
 * Texts of others, shown so that nothing in them hides or reorders anything.
 *
 * @module
 */
import { el, number } from "./dom.js";

/** Runs of what cannot be seen, turns the direction of writing, or piles up on other characters. */
const HIDDEN =
  /([\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]|(?! )\p{Zs}|(?<=\p{M}{3})\p{M})\1*| {64,}/gu;

const NAMES = new Map([
  [0x0000, "null"],
  [0x0007, "bell"],
  [0x0008, "backspace"],
  [0x0009, "tab"],
  [0x000a, "line feed"],
  [0x000d, "carriage return"],
  [0x001b, "escape"],
  [0x0020, "space"],
  [0x007f, "delete"],
  [0x00a0, "no-break space"],
  [0x00ad, "soft hyphen"],
  [0x200b, "zero width space"],
  [0x200c, "zero width non-joiner"],
  [0x200d, "zero width joiner"],
  [0x200e, "left-to-right mark"],
  [0x200f, "right-to-left mark"],
  [0x2028, "line separator"],
  [0x2029, "paragraph separator"],
  [0x202a, "left-to-right embedding"],
  [0x202b, "right-to-left embedding"],
  [0x202c, "pop directional formatting"],
  [0x202d, "left-to-right override"],
  [0x202e, "right-to-left override"],
  [0x2060, "word joiner"],
  [0x2066, "left-to-right isolate"],
  [0x2067, "right-to-left isolate"],
  [0x2068, "first strong isolate"],
  [0x2069, "pop directional isolate"],
  [0xfe0f, "variation selector 16"],
  [0xfeff, "byte order mark"],
]);

/** How much room a mark takes, in characters. */
const MARK_ROOM = 8;

/** More marks than this become plain text: a page of a million elements answers to nobody. */
const MAX_MARKS = 2000;

/**
 * Makes nodes of a text, with marks for what could not be seen.
 *
 * @param text The text.
 * @param options Whether line feeds and tabs stay what they are, as in a block of its own.
 * @returns A fragment.
 */
export function visible(text, { lines = false } = {}) {
  const fragment = document.createDocumentFragment();
  let at = 0;
  let marks = 0;
  let plain = "";
  for (const match of text.matchAll(HIDDEN)) {
    const [run, character = " "] = match;
    if (lines && (character === "\t" || (character === "\n" && run.length < 4))) continue;
    plain += text.slice(at, match.index);
    at = match.index + run.length;
    const label = labelOf(character, run);
    if (marks++ < MAX_MARKS) {
      fragment.append(plain, el("span", { class: "mark", title: nameOf(character) }, label));
      plain = lines && character === "\n" ? "\n" : "";
    } else {
      plain += `‹${label}›`;
    }
  }
  fragment.append(plain + text.slice(at));
  return fragment;
}

/**
 * How far a text goes that takes up so much room. A run of what is hidden takes no more than its mark.
 *
 * @param text The text.
 * @param from Where it begins.
 * @param room How many characters may be shown.
 * @returns Where it ends.
 */
export function reach(text, from, room) {
  const pattern = new RegExp(HIDDEN);
  pattern.lastIndex = from;
  let at = from;
  let left = room;
  for (let match = pattern.exec(text); match !== null; match = pattern.exec(text)) {
    left -= match.index - at;
    if (left < MARK_ROOM) return match.index + Math.min(left, 0);
    left -= MARK_ROOM;
    at = match.index + match[0].length;
  }
  return Math.min(at + left, text.length);
}

/** A text of somebody else in one line: a name, a title, a command. */
export function foreign(text, properties = {}) {
  const { class: name = "", ...others } = properties;
  return el("span", { ...others, class: `foreign ${name}`.trim(), dir: "ltr" }, visible(text));
}

/** A JSON text in which all of {@linkcode HIDDEN} is written as escapes. */
export function escapeHidden(json) {
  return json.replace(HIDDEN, (run) => run.startsWith(" ") ? run : escapeUnits(run));
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
  return times > 1 ? `${point} ×${number(times)}` : point;
}

function nameOf(character) {
  return NAMES.get(character.codePointAt(0)) ?? "a character that cannot be seen";
}
