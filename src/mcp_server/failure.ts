import { EnvironmentNotReadyError, PackageInstallError } from "../base/errors.ts";
import { messageOf } from "../base/message_of.ts";
import type { CallToolResult } from "./sdk.ts";

/** A failed tool call. */
export function failure(text: string): CallToolResult {
  return { isError: true, content: [{ type: "text", text }] };
}

/** An error as a tool's result, with how to fix it. */
export function explained(error: unknown): CallToolResult {
  if (error instanceof EnvironmentNotReadyError) {
    return failure(`${error.message}\nThe user can fix it with: ${error.fix}`);
  }
  if (error instanceof PackageInstallError) return failure(`${error.message}:\n${error.output}`);
  return failure(messageOf(error));
}
