import { type ExactJson, isExactObject, parseExact } from "../json/exact.ts";
import { checkJson, JsonLimitError, type JsonMeasure } from "../json/measure.ts";
import type { JSONRPCMessage } from "./sdk.ts";

/** A message of a server is too large to be taken. */
export class UnusableMessageError extends Error {
  override readonly name: string = "UnusableMessageError";
}

/** The longest message of a server. */
export const MAX_MESSAGE_BYTES: number = 128 * 2 ** 20;

/** The most values of one: parsing more holds up all other servers and sessions for seconds. */
const MAX_VALUES = 1_000_000;

/** Checks a message of a server before it is parsed. */
export function checkMessage(json: Uint8Array | JsonMeasure): void {
  try {
    checkJson(json, { maxValues: MAX_VALUES });
  } catch (error) {
    if (!(error instanceof JsonLimitError)) throw error;
    const message = `An MCP server sent a message that cannot be taken: ${error.message}`;
    throw new UnusableMessageError(message, { cause: error });
  }
}

/** Checks the size of a message while it comes. */
export function checkSize(bytes: number, maxBytes: number = MAX_MESSAGE_BYTES): void {
  if (bytes > maxBytes) throw tooLong(maxBytes);
}

/** What a message that is too large is refused with. */
export function tooLong(maxBytes: number): UnusableMessageError {
  return new UnusableMessageError(`An MCP server sent a message above ${maxBytes} bytes`);
}

/**
 * Parses a message. The structured content of a tool's result keeps its numbers as they were
 * written; the rest is what the SDK expects.
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
