/**
 * A request for approval as a person at a terminal sees it.
 *
 * Each row with text of code or a server starts with a mark, so that none of it can imitate ipybox.
 */
import {
  callName,
  callOf,
  describeArgument,
  describeCall,
  visible,
  visibleCode,
} from "../../approval/call_text.ts";
import { type ArgumentRow, argumentRows, hasEdits } from "../../approval/edits.ts";
import { type ApprovalRequest, isShell } from "../../approval/request.ts";
import { widthOf, wrapped } from "../../base/terminal.ts";
import { MARK, marked, nearChanges, prose } from "../foreign_rows.ts";
import { ago } from "./columns.ts";

export interface ShownRequest {
  readonly request: ApprovalRequest;
  readonly argumentsJson: string;
  readonly columns: number;
  /** Whether differences may be colored. */
  readonly color?: boolean;
}

/** The most rows of one argument, and of all items at once. */
const MAX_ROWS = 4;
const MAX_ITEMS = 12;
/** The most rows of arguments with edited texts. */
const MAX_EDIT_ITEMS = 30;

/** Shows a request in a few rows and says how much is left out. */
export function summary(shown: ShownRequest): string {
  const { request, columns } = shown;
  const { source, changes, askedAt } = request;
  const rows = isShell(request) ? shellRows(shown, true) : callRows(shown, true);
  if (shown.argumentsJson !== request.argumentsJson) rows.unshift("Edited:");
  if (source !== undefined) {
    const at = `  line ${source.line}: `;
    rows.push(at + cut(visibleCode(source.text.trim()), columns - at.length));
    const asked = callName(request).replaceAll("-", "_"); // as the code names it
    const others = source.names?.filter((name) => name !== asked) ?? [];
    if (others.length > 0) {
      const all = "  the code also names: ";
      rows.push(all + cut(visibleCode(others.join(", ")), columns - all.length));
    }
  }
  if (askedAt !== undefined) {
    rows.push(`  has waited for ${ago((Date.now() - askedAt.getTime()) / 1000)}`);
  }
  if (request.kind === "change" && request.description !== undefined) {
    rows.push("What it does:");
    for (const line of request.description.split("\n")) rows.push(...prose(visible(line), columns));
  }
  if (changes !== undefined) {
    rows.push("Changed since it was decided:");
    rows.push(...folded(changes.flatMap((change) => marked(visible(change), columns)), "changes"));
  }
  return rows.join("\n") + "\n";
}

export function details(shown: ShownRequest): string {
  const { request, columns } = shown;
  const { annotations = {}, source, server, title, description, changes } = request;
  const rows = isShell(request) ? shellRows(shown, false) : callRows(shown, false);
  const add = (label: string, text: string | undefined, rowsOf = marked) => {
    if (text === undefined || text === "") return;
    const shownAs = rowsOf === prose ? visible : visibleCode;
    rows.push(`${label}:`);
    for (const line of text.split("\n")) rows.push(...rowsOf(shownAs(line), columns));
  };
  add("Server", server?.launch);
  add("Title, from the server", title, prose);
  const isChange = request.kind === "change";
  add(isChange ? "What it does" : "Description, from the server", description, prose);
  const hints = Object.entries(annotations).filter(([name]) => name !== "title");
  add("Hints from the server", hints.map(([name, value]) => `${name}: ${value}`).join("\n"));
  add("Line, according to the code", source && `${source.line}: ${source.text}`);
  add("Tools that the code names (it may call others)", source?.names?.join("\n"));
  add("Changed since it was decided", changes?.join("\n"));
  return rows.join("\n") + "\n";
}

/** The call in one row if there is room, or else with each argument on its own rows. */
function callRows(shown: ShownRequest, fold: boolean): string[] {
  const { request, argumentsJson, columns } = shown;
  const call = callOf(request, argumentsJson);
  const line = MARK + describeCall(call);
  if (line.length <= columns && widthOf(line) <= columns) return [line];
  const { arguments: args } = call;
  const isEdit = hasEdits(args);
  const items = isEdit ? editItems(argumentRows(args), shown, fold) : Object.entries(args).map(
    ([name, value]) => {
      const text = `  ${describeArgument(name, value)}`;
      return fold ? shortened(text, columns) : marked(text, columns);
    },
  );
  const all = fold
    ? isEdit ? folded(items, "rows", MAX_EDIT_ITEMS) : folded(items, "arguments")
    : items;
  return [...marked(`${callName(request)}(`, columns), ...all.flat(), `${MARK})`];
}

const COLORS = { "-": 31, "+": 32 } as const;

/** The rows of arguments with edited texts; where they are folded, without unchanged lines far from changes. */
function editItems(
  rows: readonly ArgumentRow[],
  { columns, color = false }: ShownRequest,
  fold: boolean,
): string[][] {
  const rowsOf = ({ change, text }: ArgumentRow) => {
    const shown = fold ? shortened(text, columns) : marked(text, columns);
    const code = color && change !== undefined && change !== " " ? COLORS[change] : undefined;
    if (code === undefined) return shown;
    return shown.map((row) =>
      row.startsWith(MARK) ? `${MARK}\x1b[${code}m${row.slice(MARK.length)}\x1b[0m` : row
    );
  };
  if (!fold) return rows.map(rowsOf);
  return nearChanges(rows).map((row) =>
    typeof row === "number" ? [`    … ${row} unchanged lines: d shows them`] : rowsOf(row)
  );
}

function shellRows(shown: ShownRequest, fold: boolean): string[] {
  const { request, argumentsJson, columns } = shown;
  const { cmd, program, ...others } = callOf(request, argumentsJson).arguments;
  const isKnown = program === undefined || typeof program === "string";
  if (typeof cmd !== "string" || !isKnown || Object.keys(others).length > 0) {
    return callRows(shown, fold);
  }
  const rowsOf = (line: string) => {
    const text = visibleCode(line);
    return fold ? shortened(text, columns) : marked(text, columns);
  };
  const head = program === undefined ? ["Run:"] : ["Run by:", ...rowsOf(program), "Text:"];
  const lines = cmd.replace(/\n$/, "").split("\n").map(rowsOf);
  return [...head, ...(fold ? folded(lines, "lines") : lines).flat()];
}

/** Omits the middle of a long list and says how much. */
function folded<T extends string | string[]>(
  items: readonly T[],
  what: string,
  max = MAX_ITEMS,
): (T | string)[] {
  if (items.length <= max) return [...items];
  const [head, tail] = [items.slice(0, max - 3), items.slice(-2)];
  const left = items.length - head.length - tail.length;
  return [...head, `    … ${left} more ${what}: d shows them`, ...tail];
}

/** Omits the middle of a long text and says how much. */
function shortened(text: string, columns: number): string[] {
  const width = columns - MARK.length;
  if (text.length <= MAX_ROWS * width) {
    const rows = marked(text, columns);
    if (rows.length <= MAX_ROWS) return rows;
  }
  // The text may be megabytes long, so only the shown parts are examined closely.
  const head = wrapped(text.slice(0, 2 * MAX_ROWS * width), width).slice(0, MAX_ROWS - 2);
  const tail = lastRow(text.slice(text.length - width), width);
  const left = lengthOf(text) - head.reduce((sum, row) => sum + lengthOf(row), lengthOf(tail));
  return [
    ...head.map((row) => MARK + row),
    `    … ${left} more characters: d shows them`,
    MARK + tail,
  ];
}

function lastRow(text: string, width: number): string {
  const characters = [...text.replace(/^[\udc00-\udfff]/, "")];
  while (characters.length > 0 && widthOf(characters.join("")) > width) characters.shift();
  return characters.join("");
}

/** The number of characters in a text; surrogate pairs count once. */
function lengthOf(text: string): number {
  let length = 0;
  for (const _character of text) length++;
  return length;
}

function cut(text: string, width: number): string {
  const [first = "", ...rest] = wrapped(text, width - 2);
  return rest.length === 0 ? first : `${first}…`;
}
