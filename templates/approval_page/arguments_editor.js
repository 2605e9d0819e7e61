/**
 * The fields for editing arguments: each long text in a field of its own, all others as JSON.
 *
 * @module
 */
import { count, el, onCtrlEnter } from "./dom.js";
import { escapeHidden, foreign, isPlain } from "./visible.js";

/** A text that is longer, or has several lines, gets a field of its own. */
const MAX_INLINE = 80;
/** The minimum and maximum height of a field, in rows, and the characters in a row. */
const MIN_ROWS = 2;
const MAX_ROWS = 24;
const COLUMNS = 90;

/** Fields for the arguments of one request. */
export class ArgumentsEditor {
  /** The element with all fields. */
  element;

  #texts;
  #json;

  /**
   * @param entries The arguments.
   * @param options Whether they belong to a shell command, whose `cmd` gets a field of its own; and
   * the callbacks for edits and for allowing.
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

  /** Whether anything differs from the request. */
  get changed() {
    return [...this.#texts, this.#json].some(isChanged);
  }

  /** Focuses the first field. */
  focus() {
    const { area } = this.#texts[0] ?? this.#json;
    area.focus();
    area.setSelectionRange(0, 0);
  }

  /** The current arguments: texts by name, and the JSON of all others. */
  get edited() {
    const texts = this.#texts.map(({ name, area }) => [name, area.value]);
    return { texts: Object.fromEntries(texts), json: this.#json.area.value };
  }
}

/** The entries, with old and new text as separate ones. */
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

/** Creates a field, with its name and whether it was changed. */
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
