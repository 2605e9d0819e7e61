import { EnvironmentNotReadyError, PackageInstallError } from "../base/errors.ts";
import { messageOf } from "../base/message_of.ts";
import type { CallToolResult, ContentBlock } from "./sdk.ts";

/**
 * A tool's result: one text, then images, which every client shows to its model.
 *
 * There is no structured content: clients that support it show it instead of the text and the images, or
 * in addition to them, and send output schemas to the model with every request. Some also show `_meta`.
 * Links to resources are not sent either: some clients read them into the context, or break.
 */
export function success(text: string, images: readonly ContentBlock[] = []): CallToolResult {
  return { content: [{ type: "text", text }, ...images] };
}

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
