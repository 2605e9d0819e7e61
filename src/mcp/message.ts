import { type ExactJson, isExactObject, parseExact } from "../json/exact.ts";
import type { JSONRPCMessage } from "./sdk.ts";

/**
 * Parses a message. The structured content of a tool's result keeps its numbers as they were
 * written; the rest is what the SDK expects.
 *
 * @param text The JSON text.
 * @returns The message, of which the SDK checks the rest.
 * @throws {SyntaxError} It is not JSON, or no object; there are no batches.
 */
export function parseMessage(text: string): JSONRPCMessage {
  const message = JSON.parse(text);
  if (typeof message !== "object" || message === null || Array.isArray(message)) {
    throw new SyntaxError("A message is an object");
  }
  if (!text.includes('"structuredContent"')) return message;
  const exact = structuredContent(parseExact(text));
  if (exact !== undefined) message.result.structuredContent = exact;
  return message;
}

function structuredContent(message: ExactJson): ExactJson | undefined {
  if (!isExactObject(message) || !isExactObject(message.result)) return undefined;
  return message.result.structuredContent;
}
