/** Old and new text in a call's arguments, as tools that edit files take them, and how they differ. */
import { describeArgument, describeValue, quoted } from "./call_text.ts";
import { type ExactJson, type ExactObject, isExactList, isExactObject } from "../json/exact.ts";

/** A line of both texts, or of one of them, with its line feed if it has one. */
export interface DiffLine {
  /** `"-"` if only the old text has it, `"+"` if only the new one has. */
  readonly change: " " | "-" | "+";
  readonly text: string;
}

/** Above this product of numbers of lines, all changed lines are old ones, then new ones. */
const MAX_PAIRS = 250_000;

/**
 * Compares two texts by lines. All lines but `"+"` make up `before`; all lines but `"-"` make up
 * `after`.
 */
export function lineDiff(before: string, after: string): DiffLine[] {
  const [old, now] = [linesOf(before), linesOf(after)];
  const shorter = Math.min(old.length, now.length);
  let start = 0;
  while (start < shorter && old[start] === now[start]) start++;
  let end = 0;
  while (end < shorter - start && old[old.length - 1 - end] === now[now.length - 1 - end]) end++;
  return [
    ...old.slice(0, start).map((text): DiffLine => ({ change: " ", text })),
    ...changesBetween(old.slice(start, old.length - end), now.slice(start, now.length - end)),
    ...old.slice(old.length - end).map((text): DiffLine => ({ change: " ", text })),
  ];
}

function linesOf(text: string): string[] {
  return text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
}

/** Keeps as many lines as possible: their longest common subsequence. */
function changesBetween(old: readonly string[], now: readonly string[]): DiffLine[] {
  const isComparable = old.length * now.length <= MAX_PAIRS;
  const width = now.length + 1;
  // How many lines the remainders have in common, from each pair of lines.
  const common = new Uint32Array(isComparable ? (old.length + 1) * width : 0);
  const at = (i: number, j: number) => common[i * width + j] ?? 0;
  if (isComparable) {
    for (let i = old.length - 1; i >= 0; i--) {
      for (let j = now.length - 1; j >= 0; j--) {
        common[i * width + j] = old[i] === now[j]
          ? at(i + 1, j + 1) + 1
          : Math.max(at(i + 1, j), at(i, j + 1));
      }
    }
  }
  const lines: DiffLine[] = [];
  let [i, j] = [0, 0];
  for (;;) {
    const [one, other] = [old[i], now[j]];
    if (one !== undefined && one === other && isComparable) {
      lines.push({ change: " ", text: one });
      i++;
      j++;
    } else if (one !== undefined && (other === undefined || at(i + 1, j) >= at(i, j + 1))) {
      lines.push({ change: "-", text: one });
      i++;
    } else if (other !== undefined) {
      lines.push({ change: "+", text: other });
      j++;
    } else return lines;
  }
}

const OLD = /^(old)([_-]?(?:text|string|str|content|code))$/i;
const NEW_OF = new Map([["old", "new"], ["Old", "New"], ["OLD", "NEW"]]);

/** Old and new text in one object, with their names in it. */
interface Edit {
  readonly before: readonly [name: string, text: string];
  readonly after: readonly [name: string, text: string];
}

function editsIn(object: ExactObject): Edit[] {
  return Object.entries(object).flatMap(([name, old]): Edit[] => {
    const [, begin = "", rest = ""] = OLD.exec(name) ?? [];
    const newBegin = NEW_OF.get(begin);
    if (newBegin === undefined) return [];
    const partner = newBegin + rest;
    const now = Object.hasOwn(object, partner) ? object[partner] : undefined;
    if (typeof old !== "string" || typeof now !== "string") return [];
    return [{ before: [name, old], after: [partner, now] }];
  });
}

/** The members of an object, with old and new text together in place of the old text. */
export function withEdits(
  object: ExactObject,
): (Edit | readonly [name: string, value: ExactJson])[] {
  const edits = editsIn(object);
  const byName = new Map(edits.map((edit) => [edit.before[0], edit]));
  const taken = new Set(edits.map(({ after }) => after[0]));
  return Object.entries(object).filter(([name]) => !taken.has(name))
    .map((entry) => byName.get(entry[0]) ?? entry);
}

/** Whether a value contains old and new text anywhere. */
export function hasEdits(value: ExactJson): boolean {
  if (isExactList(value)) return value.some(hasEdits);
  return isExactObject(value) &&
    (editsIn(value).length > 0 || Object.values(value).some(hasEdits));
}

/** One of the rows that show arguments. */
export interface ArgumentRow {
  readonly change: DiffLine["change"] | undefined;
  /**
   * The row with its indentation, as Python would write it except for the names of edited texts.
   */
  readonly text: string;
}

/** Formats arguments, each in one row, or edited texts as differences with a row for each line. */
export function argumentRows(args: ExactObject): ArgumentRow[] {
  return memberRows(args, "  ", describeArgument);
}

function memberRows(
  object: ExactObject,
  indent: string,
  describe: (name: string, value: ExactJson) => string,
): ArgumentRow[] {
  return withEdits(object).flatMap((entry) => {
    if ("before" in entry) return diffRows(entry, indent);
    const [name, value] = entry;
    if (!hasEdits(value)) return [row(indent + describe(name, value))];
    const label = describe(name, "").slice(0, -EMPTY.length);
    return valueRows(value, indent, label);
  });
}

/** How an empty text is formatted. */
const EMPTY = "''";

function valueRows(value: ExactJson, indent: string, label: string): ArgumentRow[] {
  if (!hasEdits(value)) return [row(indent + label + describeValue(value))];
  if (isExactList(value)) {
    const items = value.flatMap((item) => valueRows(item, `${indent}  `, ""));
    return [row(`${indent}${label}[`), ...items, row(`${indent}]`)];
  }
  if (!isExactObject(value)) return [];
  const member = (name: string, inner: ExactJson) => `${quoted(name)}: ${describeValue(inner)}`;
  const members = memberRows(value, `${indent}  `, member);
  return [row(`${indent}${label}{`), ...members, row(`${indent}}`)];
}

function diffRows({ before, after }: Edit, indent: string): ArgumentRow[] {
  const names = `${before[0]} → ${after[0]}:`; // known words, as OLD has them
  const lines = lineDiff(before[1], after[1]);
  return [
    row(indent + names),
    ...lines.map(({ change, text }): ArgumentRow => ({
      change,
      text: `${indent}${change} ${quoted(text)}`,
    })),
  ];
}

function row(text: string): ArgumentRow {
  return { change: undefined, text };
}
