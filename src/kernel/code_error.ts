import { CodeExecutionError, type PartialResult } from "../errors.ts";
import type { EffectiveLimits } from "../sandbox/limits.ts";
import { limitHint } from "./limit_hint.ts";
import type { Raised } from "./raised.ts";

/**
 * Makes the error of code that raised an exception.
 *
 * @param raised The exception.
 * @param produced What the code had produced before.
 * @param limits The limits that may have been the reason, which the traceback then tells.
 * @returns The error.
 */
export function codeError(
  raised: Raised,
  produced: PartialResult,
  limits: EffectiveLimits | undefined,
): CodeExecutionError {
  const { ename, evalue } = raised;
  let traceback = raised.traceback.join("\n");
  const hint = limits && limitHint({ ename, evalue, traceback }, limits);
  if (hint !== undefined) traceback += `\n${hint}`;
  return new CodeExecutionError(ename, evalue, traceback, produced);
}
