import { unicodeWidth } from "@std/cli";
import type { CodeCompletions } from "../../kernel/typed_code.ts";
import { printable } from "../printable.ts";

/** What completing makes of code. */
export interface Completed {
  readonly text: string;
  readonly cursor: number;
  /** What it could go on with, where that is not yet clear. */
  readonly choices: readonly string[];
}

/** The most choices that are shown. */
const MAX_CHOICES = 100;

/**
 * Completes code as far as that is clear.
 *
 * Names can be chosen by executed code: those that would not be seen as they are, are left out.
 */
export function completed(code: string, completions: CodeCompletions): Completed {
  const { start, end } = completions;
  const matches = completions.matches.filter((match) =>
    printable(match) === match && !/[\n\t]/.test(match)
  );
  const [first] = matches;
  if (first === undefined) return { text: code, cursor: end, choices: [] };
  const common = matches.reduce(commonStart);
  const typed = code.slice(start, end);
  const longer = common.length >= typed.length ? common : typed;
  const text = code.slice(0, start) + longer + code.slice(end);
  const choices = matches.length > 1 && longer === typed ? matches : [];
  return { text, cursor: start + longer.length, choices };
}

/** Shows choices in columns. */
export function choiceRows(choices: readonly string[], columns: number): string {
  const common = choices.reduce(commonStart);
  const skipped = common.slice(0, common.lastIndexOf(".") + 1).length;
  const shown = choices.slice(0, MAX_CHOICES).map((choice) => choice.slice(skipped));
  const width = Math.max(...shown.map((choice) => unicodeWidth(choice))) + 2;
  const perRow = Math.max(1, Math.floor((columns - 1) / width));
  const rows: string[] = [];
  for (let at = 0; at < shown.length; at += perRow) {
    const cells = shown.slice(at, at + perRow).map((choice) =>
      choice + " ".repeat(width - unicodeWidth(choice))
    );
    rows.push(cells.join("").trimEnd());
  }
  const left = choices.length - shown.length;
  if (left > 0) rows.push(`… ${left} more`);
  return rows.join("\n") + "\n";
}

function commonStart(a: string, b: string): string {
  const [first, second] = [[...a], [...b]];
  const differs = first.findIndex((character, at) => character !== second[at]);
  return differs === -1 ? a : first.slice(0, differs).join("");
}
