/**
 * The fields in which arguments are edited: a text of its own as it is, all others as JSON.
 *
 * @module
 */
import { byId, count, el } from "./dom.js";
import { formatJson, parseJson } from "./json.js";
import { foreign, isPlain } from "./visible.js";

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

  #node;
  #texts;
  #json;

  /**
   * @param node The arguments.
   * @param options Whether they are those of a shell command, whose command is a text of its own; and
   * what to do when something was edited, and to allow.
   */
  constructor(node, { isShell, onInput, onAllow }) {
    this.#node = node;
    const isText = ([key, value]) =>
      value.kind === "string" && isPlain(value.value) &&
      (value.value.length > MAX_INLINE || value.value.includes("\n") || (isShell && key === "cmd"));
    const texts = node.entries.filter(isText);
    const others = node.entries.filter((entry) => !isText(entry));
    this.#texts = texts.map(([key, { value }], at) => ({
      key,
      ...fieldOf(`text-${at}`, foreign(key), value, value.split("\n").length),
    }));
    const name = texts.length === 0 ? "Arguments as JSON" : "Other arguments as JSON";
    const json = formatJson({ kind: "object", entries: others });
    this.#json = fieldOf("editor", name, json);
    this.#json.element.hidden = isShell && texts.length > 0 && others.length === 0;
    const fields = [...this.#texts, this.#json];
    this.element = el("div", { class: "fields" }, ...fields.map(({ element }) => element));
    for (const field of fields) {
      field.area.addEventListener("input", () => {
        field.mark.hidden = !isChanged(field);
        onInput();
      });
    }
    this.element.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.repeat) return;
      event.preventDefault();
      onAllow();
    });
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

  /** The problem with the edits; empty without one. */
  check() {
    let problem = "";
    try {
      this.json();
    } catch (error) {
      problem = error.message;
    }
    this.#json.area.setAttribute("aria-invalid", String(problem !== ""));
    return problem;
  }

  /**
   * The arguments as they are now.
   *
   * @returns Their JSON text; a number keeps its spelling.
   * @throws {Error} They are none.
   */
  json() {
    const others = parseJson(this.#json.area.value);
    if (others.kind !== "object") throw new Error("Arguments are an object: {…}");
    const left = new Map(others.entries);
    const texts = new Map(this.#texts.map(({ key, area }) => [key, area.value]));
    for (const key of left.keys()) {
      if (texts.has(key)) throw new Error(`${JSON.stringify(key)} has a separate field`);
    }
    const entries = [];
    for (const [key] of this.#node.entries) {
      if (texts.has(key)) entries.push([key, { kind: "string", value: texts.get(key) }]);
      else if (left.has(key)) entries.push([key, left.get(key)]);
      left.delete(key);
    }
    return formatJson({ kind: "object", entries: [...entries, ...left] });
  }
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

/** Brings the fields in the place of the arguments in view. */
export function openEditor(request, options) {
  const editor = new ArgumentsEditor(parseJson(request.tool_args), options);
  const view = byId("arguments");
  view.hidden = true;
  view.after(editor.element);
  return editor;
}
