import { printable } from "../log.ts";

export { printable };

/**
 * Output of executed code, made safe for a terminal: it can write and, as progress bars do, rewrite
 * its own line, but not move to other lines, hide text or change the terminal's settings.
 */
export function printableOutput(text: string): string {
  return text.split("\r").map(printable).join("\r");
}
