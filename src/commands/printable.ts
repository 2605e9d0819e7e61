import type { CodeExecutionError } from "../errors.ts";
import { missingModule } from "../kernel/failure_hint.ts";
import { printable } from "../log.ts";

export { printable };

/**
 * Output of executed code, made safe for a terminal: it can write and, as progress bars do, rewrite
 * its own line, but not move to other lines, hide text or change the terminal's settings.
 */
export function printableOutput(text: string): string {
  return text.split("\r").map(printable).join("\r");
}

/** The traceback of an error, made safe for a terminal, with the command that may help. */
export function printableTraceback(error: CodeExecutionError): string {
  const traceback = printable(error.traceback.trimEnd());
  const module = missingModule(error);
  return module === undefined
    ? traceback
    : `${traceback}\n[ipybox] To install it: ipybox install ${module}`;
}
