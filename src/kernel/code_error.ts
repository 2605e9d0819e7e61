import { CodeExecutionError, type PartialResult } from "../errors.ts";
import { failureHint, type HintContext } from "./failure_hint.ts";
import type { Raised } from "./raised.ts";

/** Makes the error of code that raised an exception. */
export function codeError(
  raised: Raised,
  produced: PartialResult,
  context: HintContext,
): CodeExecutionError {
  const { ename, evalue } = raised;
  let traceback = raised.traceback.join("\n");
  const hint = failureHint({ ename, evalue, traceback }, context);
  if (hint !== undefined) traceback += `\n${hint}`;
  return new CodeExecutionError(ename, evalue, traceback, produced);
}
