/**
 * Old and new text in a call's arguments, as tools that edit files take them, and how they differ.
 * The terminal has the same in `src/approval/edits.ts`.
 *
 * @module
 */

/** Above this product of numbers of lines, all changed lines are old ones, then new ones. */
const MAX_PAIRS = 250_000;

const OLD = /^(old)([_-]?(?:text|string|str|content|code))$/i;
const NEW_OF = new Map([["old", "new"], ["Old", "New"], ["OLD", "NEW"]]);

/**
 * Joins old and new text of an object.
 *
 * @param entries Its entries, with nodes as values.
 * @returns The entries, with `{ before, after }` for old and new text, each a name and a text.
 */
export function withEdits(entries) {
  const named = new Map(entries);
  const edits = new Map();
  const taken = new Set();
  for (const [name, old] of entries) {
    const [, begin, rest] = OLD.exec(name) ?? [];
    if (!NEW_OF.has(begin)) continue;
    const partner = NEW_OF.get(begin) + rest;
    const now = named.get(partner);
    if (old.kind !== "string" || now?.kind !== "string") continue;
    edits.set(name, { before: [name, old.value], after: [partner, now.value] });
    taken.add(partner);
  }
  return entries.filter(([name]) => !taken.has(name))
    .map((entry) => edits.get(entry[0]) ?? entry);
}

/**
 * Compares two texts by lines.
 *
 * @returns Lines `{ change, text }`, with their line feeds: those that are not `"+"` make up `before`,
 * those that are not `"-"` make up `after`.
 */
export function lineDiff(before, after) {
  const [old, now] = [linesOf(before), linesOf(after)];
  const shorter = Math.min(old.length, now.length);
  let start = 0;
  while (start < shorter && old[start] === now[start]) start++;
  let end = 0;
  while (end < shorter - start && old[old.length - 1 - end] === now[now.length - 1 - end]) end++;
  return [
    ...old.slice(0, start).map((text) => ({ change: " ", text })),
    ...changesBetween(old.slice(start, old.length - end), now.slice(start, now.length - end)),
    ...old.slice(old.length - end).map((text) => ({ change: " ", text })),
  ];
}

function linesOf(text) {
  return text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
}

/** Keeps as many lines as it can, by their longest common subsequence. */
function changesBetween(old, now) {
  const isComparable = old.length * now.length <= MAX_PAIRS;
  const width = now.length + 1;
  // How many lines the rests have in common, from each line of both.
  const common = new Uint32Array(isComparable ? (old.length + 1) * width : 0);
  const at = (i, j) => common[i * width + j] ?? 0;
  if (isComparable) {
    for (let i = old.length - 1; i >= 0; i--) {
      for (let j = now.length - 1; j >= 0; j--) {
        common[i * width + j] = old[i] === now[j]
          ? at(i + 1, j + 1) + 1
          : Math.max(at(i + 1, j), at(i, j + 1));
      }
    }
  }
  const lines = [];
  let [i, j] = [0, 0];
  while (i < old.length || j < now.length) {
    if (isComparable && i < old.length && old[i] === now[j]) {
      lines.push({ change: " ", text: old[i] });
      i++;
      j++;
    } else if (i < old.length && (j >= now.length || at(i + 1, j) >= at(i, j + 1))) {
      lines.push({ change: "-", text: old[i++] });
    } else lines.push({ change: "+", text: now[j++] });
  }
  return lines;
}
