/**
 * How wide the terminal is.
 *
 * @module
 */

/** What is taken for the width where it cannot be told, and the most that tables are wrapped to. */
export const USUAL_COLUMNS = 80;

/** How wide the terminal is; as wide as the narrowest usual one where that cannot be told. */
export function terminalColumns(): number {
  try {
    return Deno.consoleSize().columns || USUAL_COLUMNS;
  } catch {
    return USUAL_COLUMNS; // it is no terminal that has a size
  }
}

/** How wide the terminal is that results go to, if it is one. */
export function outputColumns(io: { readonly stdoutIsTerminal: boolean }): number | undefined {
  return io.stdoutIsTerminal ? terminalColumns() : undefined;
}
