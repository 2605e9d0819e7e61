import type {
  CodeExecutionError,
  ExecutionTimeoutError,
  KernelDiedError,
} from "../../base/errors.ts";
import { printable } from "../../base/log.ts";
import { terminalSize } from "../../base/terminal.ts";
import { missingServer } from "../../kernel/traceback.ts";

/** The assumed width if results do not go to a terminal, and the maximum for tables. */
export const USUAL_COLUMNS = 80;

/** The width of the terminal that results go to, if they go to one. */
export function outputColumns(io: { readonly stdoutIsTerminal: boolean }): number | undefined {
  return io.stdoutIsTerminal ? terminalSize().columns : undefined;
}

/** The width of a help: the terminal's, up to the usual one. */
export function helpColumns(io: { readonly stdoutIsTerminal: boolean }): number {
  return Math.min(outputColumns(io) ?? USUAL_COLUMNS, USUAL_COLUMNS);
}

export { printable, terminalSize };

/**
 * Makes output of executed code safe for a terminal. It can write and, like progress bars, rewrite
 * its own line, but not move to other lines, hide text or change the terminal's settings.
 */
export function printableOutput(text: string): string {
  return text.split("\r").map(printable).join("\r");
}

/** Why code was stopped and where, made safe for a terminal. */
export function printableEnd(
  { message, outputs }: ExecutionTimeoutError | KernelDiedError,
): string {
  const last = outputs.at(-1);
  const place = last?.type === "error" ? `${last.traceback.join("\n").trimEnd()}\n` : "";
  return printable(`${place}ipybox: ${message}`);
}

export function ago(seconds: number): string {
  if (seconds < 120) return `${Math.max(0, Math.round(seconds))} s`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}

/** The traceback of an error, made safe for a terminal, with a command that may help. */
export function printableTraceback(error: CodeExecutionError, color: boolean): string {
  const plain = printable(error.traceback.trimEnd());
  const traceback = color ? colored(plain, error.ename) : plain;
  const server = missingServer(error);
  return server === undefined
    ? traceback
    : `${traceback}\n${server}: see \`ipybox register --help\``;
}

/** The starts of a traceback's colored rows: rules, places, and the lines that raised. */
const ROWS: readonly (readonly [start: RegExp, color: string])[] = [
  [/^-{20}/, "31"],
  [/^(?:File |Cell In\[)/, "36"],
  [/^-{1,20}> \d/, "32"],
];

/** Colors a traceback. Nothing is bold: only questions are, and code names its exception. */
function colored(traceback: string, ename: string): string {
  const rows = traceback.split("\n");
  const last = rows.findLastIndex((row) => row.startsWith(ename));
  return rows.map((row, at) => {
    const color = at === last ? "31" : ROWS.find(([start]) => start.test(row))?.[1];
    return color === undefined ? row : `\x1b[${color}m${row}\x1b[0m`;
  }).join("\n");
}
