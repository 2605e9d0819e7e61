/**
 * How wide results may be.
 *
 * @module
 */
import { terminalSize } from "./terminal_size.ts";

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
