/**
 * Shows all arguments, with deep and distant ones folded. A value is as in JSON, or `{ raw }` for a
 * number as it was written, `{ items }` or `{ entries }`. An entry is a name and a value, or
 * `{ before, after, lines }` for the names of old and new text, and their differences.
 *
 * @module
 */
import { count, el } from "./dom.js";
import { foreign, visible } from "./visible.js";

/** Texts up to this length, in one line, stand beside their names. */
const INLINE = 80;
/** The number of entries to show at once, and the depth down to which all are open. */
const ENTRIES = 100;
const OPEN_DEPTH = 3;
/** How many unchanged lines stay around changed ones. */
const CONTEXT = 3;

/**
 * Shows arguments.
 *
 * @param entries Their entries.
 * @returns The element.
 */
export function argumentsView(entries) {
  if (entries.length === 0) return el("p", { class: "note" }, "No arguments");
  return objectView(entries, 0);
}

function objectView(entries, depth) {
  return listView(entries, (entry) => {
    if ("before" in entry) return editView(entry);
    const [key, value] = entry;
    return [
      el("dt", {}, key === "" ? el("span", { class: "note" }, "(an empty name)") : foreign(key)),
      el("dd", {}, valueView(value, depth)),
    ];
  });
}

function listView(entries, view) {
  const list = el("dl", { class: "json" }, ...entries.slice(0, ENTRIES).flatMap(view));
  const rest = entries.slice(ENTRIES);
  if (rest.length > 0) {
    const content = () => el("dl", { class: "json" }, ...rest.flatMap(view));
    list.append(el("dd", { class: "rest" }, folded(count(rest.length, "more", "more"), content)));
  }
  return list;
}

/** Shows old and new text as removed and added lines. */
function editView({ before, after, lines }) {
  const removed = lines.filter(({ change }) => change === "-").length;
  const added = lines.filter(({ change }) => change === "+").length;
  const label = `${count(removed, "line")} removed, ${count(added, "line")} added`;
  // Nothing else shows that only one of the texts ends with a line feed.
  const endsDiffer = lines.filter((line) => line.change !== " " && isOpen(line)).length === 1;
  const view = (line) => lineView(line, endsDiffer);
  const parts = partsOf(lines).map((part) =>
    Array.isArray(part)
      ? folded(count(part.length, "unchanged line"), () => el("div", {}, ...part.map(view)))
      : view(part)
  );
  const block = el("div", { class: "block diff", dir: "ltr", tabindex: "0" }, ...parts);
  return [
    el("dt", {}, foreign(before), " → ", foreign(after)),
    el("dd", {}, el("div", { class: "long" }, el("p", { class: "note" }, label), block)),
  ];
}

/** The lines, with unchanged lines that are far from changes in lists. */
function partsOf(lines) {
  const isFar = (index) =>
    lines.slice(Math.max(index - CONTEXT, 0), index + CONTEXT + 1)
      .every(({ change }) => change === " ");
  const parts = [];
  for (let index = 0; index < lines.length;) {
    let end = index;
    while (end < lines.length && isFar(end)) end++;
    if (end - index > 1) parts.push(lines.slice(index, end));
    else parts.push(...lines.slice(index, end = index + 1));
    index = end;
  }
  return parts;
}

const CHANGES = { " ": ["same", ""], "-": ["removed", "removed: "], "+": ["added", "added: "] };

function isOpen({ text }) {
  return !text.endsWith("\n");
}

function lineView(line, endsDiffer) {
  const { change, text } = line;
  const [name, spoken] = CHANGES[change];
  const content = el(
    "span",
    { class: "content" },
    visible(text.replace(/\n$/, ""), { lines: true }),
  );
  if (endsDiffer && change !== " " && isOpen(line)) {
    content.append(el("span", { class: "mark", title: "The text ends here" }, "no line feed"));
  }
  return el(
    "div",
    { class: `line ${name}` },
    el("span", { class: "sign", "aria-hidden": "true" }, change),
    el("span", { class: "unseen" }, spoken),
    content,
  );
}

function valueView(value, depth) {
  if (typeof value === "string") return stringView(value);
  const { raw, items, entries } = value ?? {};
  const part = (size, content) => folded(size, content, depth < OPEN_DEPTH);
  if (entries?.length > 0) {
    const size = count(entries.length, "entry", "entries");
    return part(size, () => objectView(entries, depth + 1));
  }
  if (items?.length > 0) {
    const indexed = items.map((item, index) => [index, item]);
    return part(count(items.length, "item"), () =>
      listView(indexed, ([index, item]) => [
        el("dt", { class: "index" }, String(index)),
        el("dd", {}, valueView(item, depth + 1)),
      ]));
  }
  const text = entries !== undefined ? "{}" : items !== undefined ? "[]" : String(value);
  return el("code", { class: "raw" }, raw ?? text);
}

/** Creates the folded part when it is opened: arguments may have a million parts. */
export function folded(summary, content, isOpen = false) {
  const details = el("details", {}, el("summary", {}, summary));
  const fill = () => {
    if (details.open && details.childElementCount === 1) details.append(content());
  };
  details.addEventListener("toggle", fill);
  details.open = isOpen;
  fill();
  return details;
}

function stringView(text) {
  if (text.length <= INLINE && !/[\n\r]/.test(text)) {
    return el("code", { class: "string", dir: "ltr" }, visible(JSON.stringify(text)));
  }
  return blockView(text);
}

/**
 * Shows a long text as a block.
 *
 * @param text The text.
 * @param options Whether it is code.
 * @returns The element.
 */
export function blockView(text, { code = false } = {}) {
  const lines = text.split("\n").length;
  const size = lines === 1 ? "" : `, ${count(lines, "line")}`;
  return el(
    "div",
    { class: "long" },
    el("p", { class: "note" }, `${count(text.length, "character")}${size}`),
    el("pre", { class: "block", dir: "ltr", tabindex: "0" }, visible(text, { lines: true, code })),
  );
}
