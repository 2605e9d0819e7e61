/**
 * How wide results may be.
 *
 * @module
 */
import type {
  CodeExecutionError,
  ExecutionTimeoutError,
  KernelDiedError,
} from "../../base/errors.ts";
import { printable } from "../../base/log.ts";
import { terminalSize } from "../../base/terminal.ts";
import { missingModule } from "../../kernel/traceback.ts";

/** What is taken for the width where results go to no terminal, and the most for tables anyway. */
export const USUAL_COLUMNS = 80;

/** How wide a list may be: where it goes to another program, such as `grep`, each row is a line. */
export function listColumns(io: { readonly stdoutIsTerminal: boolean }): number {
  return outputColumns(io) ?? Infinity;
}

/** How wide the terminal is that results go to, if it is one. */
export function outputColumns(io: { readonly stdoutIsTerminal: boolean }): number | undefined {
  return io.stdoutIsTerminal ? terminalSize().columns : undefined;
}

export { printable, terminalSize };

/**
 * Output of executed code, made safe for a terminal: it can write and, as progress bars do, rewrite
 * its own line, but not move to other lines, hide text or change the terminal's settings.
 */
export function printableOutput(text: string): string {
  return text.split("\r").map(printable).join("\r");
}

/** Why code was ended, and where it was then, made safe for a terminal. */
export function printableEnd(
  { message, outputs }: ExecutionTimeoutError | KernelDiedError,
): string {
  const last = outputs.at(-1);
  const place = last?.type === "error" ? `${last.traceback.join("\n").trimEnd()}\n` : "";
  return printable(`${place}ipybox: ${message}`);
}

/** A time that has passed. */
export function ago(seconds: number): string {
  if (seconds < 120) return `${Math.max(0, Math.round(seconds))} s`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}

/** The traceback of an error, made safe for a terminal, with the command that may help. */
export function printableTraceback(error: CodeExecutionError, color: boolean): string {
  const plain = printable(error.traceback.trimEnd());
  const traceback = color ? colored(plain, error.ename) : plain;
  const module = missingModule(error);
  return module === undefined
    ? traceback
    : `${traceback}\n[ipybox] To install it: ipybox install ${module}`;
}

/** What starts the rows of a traceback that have a colour: rules, places, and the lines that raised. */
const ROWS: readonly (readonly [start: RegExp, color: string])[] = [
  [/^-{20}/, "31"],
  [/^(?:File |Cell In\[)/, "36"],
  [/^-{1,20}> \d/, "32"],
];

/** A traceback in colours. None is bold: only questions are, and code chose the name of its exception. */
function colored(traceback: string, ename: string): string {
  const rows = traceback.split("\n");
  const last = rows.findLastIndex((row) => row.startsWith(ename));
  return rows.map((row, at) => {
    const color = at === last ? "31" : ROWS.find(([start]) => start.test(row))?.[1];
    return color === undefined ? row : `\x1b[${color}m${row}\x1b[0m`;
  }).join("\n");
}
