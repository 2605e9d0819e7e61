/**
 * The fields in which arguments are edited: a text of its own as it is, all others as JSON.
 *
 * @module
 */
import { count, el, onCtrlEnter } from "./dom.js";
import { escapeHidden, foreign, isPlain } from "./visible.js";

/** A text that is longer, or has several lines, is not read as JSON. */
const MAX_INLINE = 80;
/** How high a field is at least and at most, in rows, and how many characters one row has. */
const MIN_ROWS = 2;
const MAX_ROWS = 24;
const COLUMNS = 90;

/** Fields for the arguments of one request. */
export class ArgumentsEditor {
  /** All of them. */
  element;

  #texts;
  #json;

  /**
   * @param entries The arguments.
   * @param options Whether they are those of a shell command, whose command is a text of its own; and
   * what to do when something was edited, and to allow.
   */
  constructor(entries, { isShell, onInput, onAllow }) {
    const isText = ([name, value]) =>
      typeof value === "string" && isPlain(value) &&
      (value.length > MAX_INLINE || value.includes("\n") || (isShell && name === "cmd"));
    const all = withoutEdits(entries);
    const texts = all.filter(isText);
    const others = all.filter((entry) => !isText(entry));
    this.#texts = texts.map(([name, value], at) => ({
      name,
      ...fieldOf(`text-${at}`, foreign(name), value, value.split("\n").length),
    }));
    const name = texts.length === 0 ? "Arguments as JSON" : "Other arguments as JSON";
    this.#json = fieldOf("editor", name, jsonOf({ entries: others }));
    this.#json.element.hidden = isShell && texts.length > 0 && others.length === 0;
    const fields = [...this.#texts, this.#json];
    this.element = el("div", { class: "fields" }, ...fields.map(({ element }) => element));
    for (const field of fields) {
      field.area.addEventListener("input", () => {
        field.mark.hidden = !isChanged(field);
        onInput();
      });
    }
    onCtrlEnter(this.element, onAllow);
  }

  /** Whether anything is other than it was asked for. */
  get changed() {
    return [...this.#texts, this.#json].some(isChanged);
  }

  /** Goes to the first field. */
  focus() {
    const { area } = this.#texts[0] ?? this.#json;
    area.focus();
    area.setSelectionRange(0, 0);
  }

  /** The arguments as they are now: texts by their names, and the JSON of all others. */
  get edited() {
    const texts = this.#texts.map(({ name, area }) => [name, area.value]);
    return { texts: Object.fromEntries(texts), json: this.#json.area.value };
  }
}

/** The entries with old and new text as they are. */
function withoutEdits(entries) {
  return entries.flatMap((entry) => {
    if (!("before" in entry)) return [entry];
    const { before, after, lines } = entry;
    const textOf = (other) =>
      lines.filter(({ change }) => change !== other).map(({ text }) => text).join("");
    return [[before, textOf("+")], [after, textOf("-")]];
  });
}

/** The JSON text of a value for people to edit: one entry a line, and nothing invisible. */
export function jsonOf(value, indent = "") {
  const inner = `${indent}  `;
  if (typeof value === "string") return quoted(value);
  if (typeof value !== "object" || value === null) return String(value);
  const { raw, items, entries } = value;
  if (raw !== undefined) return raw;
  const [open, close] = items === undefined ? "{}" : "[]";
  const lines = items?.map((item) => jsonOf(item, inner)) ??
    withoutEdits(entries).map(([name, value]) => `${quoted(name)}: ${jsonOf(value, inner)}`);
  if (lines.length === 0) return open + close;
  return `${open}\n${lines.map((line) => inner + line).join(",\n")}\n${indent}${close}`;
}

function quoted(text) {
  return escapeHidden(JSON.stringify(text));
}

/** A field, with its name and whether it was changed. */
function fieldOf(id, name, text, lines = 1) {
  const mark = el("span", { class: "changed", hidden: true }, "changed");
  const size = lines > 1 ? el("span", { class: "note" }, ` ${count(lines, "line")} of text`) : "";
  const area = el("textarea", {
    id,
    class: "editor",
    dir: "ltr",
    rows: rowsOf(text),
    spellcheck: "false",
    autocapitalize: "off",
    autocomplete: "off",
    "aria-describedby": "problem",
  });
  area.value = text;
  const label = el("label", { for: id }, name, size, " ", mark);
  return { element: el("div", { class: "field" }, label, area), area, mark, text };
}

function isChanged({ area, text }) {
  return area.value !== text;
}

function rowsOf(text) {
  let rows = 1;
  for (const line of text.split("\n")) rows += Math.max(1, Math.ceil(line.length / COLUMNS));
  return Math.min(MAX_ROWS, Math.max(MIN_ROWS, rows));
}
