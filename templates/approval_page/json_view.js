/**
 * Shows JSON: all of it, the long and the deep parts folded.
 *
 * @module
 */
import { count, el, number } from "./dom.js";
import { lineDiff, withEdits } from "./edits.js";
import { foreign, reach, visible } from "./visible.js";

/** Texts up to this length, in one line, stand beside their names. */
const INLINE = 80;
/** How much of a long text is shown at its start and at its end, and by each further step. */
const HEAD = 900;
const TAIL = 300;
const STEP = 100_000;
/** How many entries are shown at once, and how deep all is open. */
const ENTRIES = 100;
const OPEN_DEPTH = 3;
/** How many unchanged lines stay around changed ones. */
const CONTEXT = 3;

/**
 * Shows arguments.
 *
 * @param node The arguments, a node of an object.
 * @returns The element.
 */
export function argumentsView(node) {
  if (node.entries.length === 0) return el("p", { class: "note" }, "No arguments");
  return objectView(node, 0);
}

function objectView(node, depth) {
  const list = el("dl", { class: "json" });
  inSteps(list, withEdits(node.entries), (entry) => {
    if ("before" in entry) return editView(entry);
    const [key, value] = entry;
    return [
      el("dt", {}, key === "" ? el("span", { class: "note" }, "(an empty name)") : foreign(key)),
      el("dd", {}, valueView(value, depth)),
    ];
  });
  return list;
}

/** Shows old and new text as what is removed and what is added. */
function editView({ before: [oldName, old], after: [newName, now] }) {
  const lines = lineDiff(old, now);
  const removed = lines.filter(({ change }) => change === "-").length;
  const added = lines.filter(({ change }) => change === "+").length;
  const label = `${count(removed, "line")} removed, ${count(added, "line")} added`;
  const block = el("div", { class: "block diff", dir: "ltr", tabindex: "0" });
  // Whether a text ends with a line feed shows in no other way.
  const endsDiffer = old.endsWith("\n") !== now.endsWith("\n");
  inSteps(block, partsOf(lines), (part) => [
    Array.isArray(part)
      ? folded(count(part.length, "unchanged line"), () => {
        const rest = el("div");
        inSteps(rest, part, (line) => [lineView(line, false)]);
        return rest;
      })
      : lineView(part, endsDiffer),
  ]);
  return [
    el("dt", {}, foreign(oldName), " → ", foreign(newName)),
    el("dd", {}, el("div", { class: "long" }, el("p", { class: "note" }, label), block)),
  ];
}

/** The lines, with lists of those that are unchanged and far from what changes. */
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

function lineView({ change, text }, endsDiffer) {
  const [name, spoken] = CHANGES[change];
  const content = el("span", { class: "content" });
  const line = text.replace(/\n$/, "");
  if (reach(line, 0, HEAD + TAIL) < line.length) fold(content, line, { lines: true });
  else content.append(visible(line, { lines: true }));
  const isOpen = endsDiffer && change !== " " && line === text;
  if (isOpen) {
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

function arrayView(node, depth) {
  const list = el("dl", { class: "json" });
  inSteps(list, node.items, (item, index) => [
    el("dt", { class: "index" }, String(index)),
    el("dd", {}, valueView(item, depth)),
  ]);
  return list;
}

function valueView(node, depth) {
  switch (node.kind) {
    case "object":
      if (node.entries.length === 0) return el("code", { class: "raw" }, "{}");
      return folded(
        count(node.entries.length, "entry", "entries"),
        () => objectView(node, depth + 1),
        depth < OPEN_DEPTH,
      );
    case "array":
      if (node.items.length === 0) return el("code", { class: "raw" }, "[]");
      return folded(
        count(node.items.length, "item"),
        () => arrayView(node, depth + 1),
        depth < OPEN_DEPTH,
      );
    case "string":
      return stringView(node.value);
    case "raw":
      return el("code", { class: "raw" }, node.raw);
  }
}

/** Makes the folded part when it is opened: arguments may have a million parts. */
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

function inSteps(list, entries, view) {
  let shown = 0;
  const more = el("button", { type: "button", class: "quiet more" });
  const step = () => {
    const last = Math.min(shown + ENTRIES, entries.length);
    const nodes = [];
    while (shown < last) nodes.push(...view(entries[shown], shown++));
    more.remove();
    list.append(...nodes);
    if (shown === entries.length) return;
    more.textContent = `Show more: ${number(entries.length - shown)} are folded`;
    list.append(more);
  };
  more.addEventListener("click", step);
  step();
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
  const block = el("pre", { class: "block", dir: "ltr", tabindex: "0" });
  const lines = text.split("\n").length;
  const size = lines === 1 ? "" : `, ${count(lines, "line")}`;
  const isLong = reach(text, 0, HEAD + TAIL) < text.length;
  const cut = isLong ? ", partly folded" : "";
  const label = el("p", { class: "note" }, `${count(text.length, "character")}${size}${cut}`);
  if (isLong) fold(block, text, { lines: true, code });
  else block.append(visible(text, { lines: true, code }));
  return el("div", { class: "long" }, label, block);
}

/** Shows start and end of a long text, and the part between when it is asked for. */
function fold(block, text, options) {
  let shown = whole(text, reach(text, 0, HEAD));
  const last = whole(text, Math.max(shown, text.length - TAIL));
  const start = el("span", {}, visible(text.slice(0, shown), options));
  const end = el("span", {}, visible(text.slice(last), options));
  const more = el("button", { type: "button", class: "quiet more" });
  const tell = () => {
    more.textContent = `${number(last - shown)} characters are folded: show them`;
  };
  more.addEventListener("click", () => {
    const until = whole(text, Math.min(reach(text, shown, STEP), last));
    start.append(visible(text.slice(shown, until), options));
    shown = until;
    if (shown === last) more.remove();
    else tell();
  });
  tell();
  block.replaceChildren(start, more, end);
}

/** The same place in a text, or the one before where it would take a character apart. */
function whole(text, at) {
  return /[\udc00-\udfff]/.test(text[at] ?? "") && /[\ud800-\udbff]/.test(text[at - 1])
    ? at - 1
    : at;
}
