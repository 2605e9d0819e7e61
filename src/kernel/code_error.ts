import { CodeExecutionError, type PartialResult } from "../errors.ts";
import type { EffectiveLimits } from "../sandbox/limits.ts";
import type { JsonObject } from "./jupyter.ts";
import { limitHint } from "./limit_hint.ts";
import { cleanTraceback } from "./traceback.ts";

/**
 * Makes the error of code that raised an exception.
 *
 * @param reply The content of the kernel's reply.
 * @param produced What the code had produced before.
 * @param limits The limits that may have been the reason, which the traceback then tells.
 * @returns The error.
 */
export function codeError(
  reply: JsonObject,
  produced: PartialResult,
  limits: EffectiveLimits | undefined,
): CodeExecutionError {
  const ename = typeof reply.ename === "string" ? reply.ename : "Error";
  const evalue = typeof reply.evalue === "string"
    ? reply.evalue
    : `The kernel answered ${String(reply.status)}`;
  const lines = Array.isArray(reply.traceback) ? reply.traceback.map(String) : [];
  let traceback = cleanTraceback(lines).join("\n");
  const hint = limits && limitHint({ ename, evalue, traceback }, limits);
  if (hint !== undefined) traceback += `\n${hint}`;
  return new CodeExecutionError(ename, evalue, traceback, produced);
}
