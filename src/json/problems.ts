import { z } from "zod";
import { printable } from "../base/log.ts";

/** The most problems to list. */
const MAX_PROBLEMS = 20;
/** The most characters of a problem, which may quote hostile text. */
const MAX_LENGTH = 300;

/** Lists a check's problems for people. Quoted text cannot add lines that look like ours. */
export function problemLines({ issues }: z.ZodError): string {
  const shown = issues.slice(0, MAX_PROBLEMS).map(({ message, path }) => ({
    message: oneLine(message),
    path: path.map((name) => typeof name === "string" ? oneLine(name) : name),
  }));
  const rest = issues.length - shown.length;
  return z.prettifyError({ issues: shown }) + (rest > 0 ? `\n✖ ${rest} more problems` : "");
}

/** A text as one line of limited length. */
export function oneLine(text: string): string {
  const line = printable(text).replaceAll("\n", "\\n").replaceAll("\t", "\\t");
  return line.length <= MAX_LENGTH ? line : `${line.slice(0, MAX_LENGTH).toWellFormed()}…`;
}
