import { beginWork } from "../base/stalls.ts";
import { isRecord } from "../json/exact.ts";
import { checkJson, JsonLimitError } from "../json/measure.ts";
import { endOfString, parseJson } from "../json/plain.ts";
import type { JSONRPCMessage } from "./sdk.ts";

/** A server's message exceeds a limit. */
export class UnusableMessageError extends Error {
  override readonly name: string = "UnusableMessageError";
}

/** The largest message of a server. */
export const MAX_MESSAGE_BYTES: number = 64 * 2 ** 20;

/** The most values and names in a message: three bytes such as `[],` become dozens of bytes of memory. */
const MAX_VALUES = 1_000_000;

/** The error for a message that is too large. */
export function tooLong(maxBytes: number = MAX_MESSAGE_BYTES): UnusableMessageError {
  return new UnusableMessageError(`An MCP server sent a message of more than ${maxBytes} bytes`);
}

/** Checks the size and depth of a whole message before it is parsed: later steps recurse. */
export function checkMessage(message: Uint8Array): void {
  beginWork(`a message of an MCP server (${message.length} bytes)`);
  try {
    checkJson(message, MAX_VALUES);
  } catch (error) {
    if (!(error instanceof JsonLimitError)) throw error;
    const problem = `An MCP server sent a message that cannot be accepted: ${error.message}`;
    throw new UnusableMessageError(problem, { cause: error });
  }
}

/** A request's id. */
export type RequestId = string | number;

/**
 * Parses a line of a server's output: a message, or several without a line feed between them. An answer
 * that is not JSON becomes an error for its request, or for all that wait if its id cannot be found:
 * nothing else would end them.
 */
export function parseLine(
  text: string,
  waiting: ReadonlyMap<string, RequestId>,
): JSONRPCMessage[] {
  try {
    return [parseMessage(text)];
  } catch (error) {
    if (!(error instanceof SyntaxError) || !text.includes(MESSAGE)) throw error;
  }
  return documentsIn(text).flatMap((part) => {
    try {
      return [parseMessage(part)];
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
      return part.includes(MESSAGE) ? errorsInstead(part, error, waiting) : [];
    }
  });
}

/** Text that is in every message, but in few other lines. */
const MESSAGE = '"jsonrpc"';

/** Parses a message for the SDK. */
export function parseMessage(text: string): JSONRPCMessage {
  const message = forSdk(parseJson(text), text);
  if (!isRecord(message)) throw new TypeError("A message is an object");
  return message as JSONRPCMessage; // the SDK checks it
}

/**
 * A message as the SDK gets it. The text of the message replaces a tool's result, which the SDK would copy
 * and check, and whose numbers it would round.
 */
function forSdk(message: unknown, text: string): unknown {
  if (Array.isArray(message)) return message.map((each) => forSdk(each, JSON.stringify(each)));
  if (!isRecord(message) || !("result" in message)) return message;
  const { id, result } = message;
  // The SDK would not treat this as a response, and the request would never settle.
  if (!isRecord(result)) return { jsonrpc: "2.0", id, error: NO_RESULT };
  if (!("content" in result || "structuredContent" in result)) return message;
  return { ...message, result: { ...result, content: [], structuredContent: text } };
}

/** The text of the response with a tool's result, given the SDK's result. */
export function responseText(result: unknown): string {
  const text = isRecord(result) ? result.structuredContent : undefined;
  return typeof text === "string" ? text : JSON.stringify({ result });
}

/**
 * The text of a message for the SDK's own parser, written anew because V8 can misread names with escapes: see
 * {@linkcode parseJson}. An answer that is not JSON becomes an error for the request that it names, or else
 * for the one that it answers.
 */
export function textForSdk(
  text: string,
  request: () => RequestId | undefined = () => undefined,
): string {
  checkMessage(new TextEncoder().encode(text));
  try {
    return JSON.stringify(forSdk(parseJson(text), text));
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    const { id = request(), isRequest } = topOf(text);
    const isAnswer = text.includes(MESSAGE) && !isRequest && id !== undefined;
    return isAnswer ? JSON.stringify(errorAnswer(id, notJson(error))) : text;
  }
}

/** The message to deliver in place of an answer that cannot be used. */
export function errorAnswer(id: RequestId, message: string): JSONRPCMessage {
  return { jsonrpc: "2.0", id, error: { code: -32603, message } };
}

/** Says that an answer is not JSON. The tool has run: its caller should know. */
function notJson({ message }: SyntaxError): string {
  return `The request ran, but the server's answer is not JSON: ${message}`;
}

function errorsInstead(
  text: string,
  error: SyntaxError,
  waiting: ReadonlyMap<string, RequestId>,
): JSONRPCMessage[] {
  const { id, isRequest } = topOf(text);
  if (isRequest) return []; // the server's own, which nothing here waits for
  if (id === undefined) {
    const message =
      `The server sent an answer, perhaps to this request, that is not JSON: ${error.message}`;
    return [...waiting.values()].map((each) => errorAnswer(each, message));
  }
  const own = waiting.get(String(id));
  return own === undefined ? [] : [errorAnswer(own, notJson(error))];
}

/** Splits a text after each object and list in it. */
function documentsIn(text: string): string[] {
  const parts: string[] = [];
  let start = 0;
  for (const { at, character, depth } of marksIn(text)) {
    if (depth > 0 || character === '"') continue;
    parts.push(text.slice(start, at + 1));
    start = at + 1;
  }
  return [...parts, text.slice(start)].filter((part) => part.trim() !== "");
}

const TOP_NAME = /"(id|method)"\s*:\s*(?:(-?\d+)|"([^"\\]*)")?/y;

/** The id and the kind of a message, although the message is not JSON. */
function topOf(
  text: string,
): { readonly id: RequestId | undefined; readonly isRequest: boolean } {
  let [id, isRequest]: [RequestId | undefined, boolean] = [undefined, false];
  for (const { at, character, depth } of marksIn(text)) {
    if (character !== '"' || depth > 1) continue;
    TOP_NAME.lastIndex = at;
    const [, name, number, word] = TOP_NAME.exec(text) ?? [];
    if (name === "method") isRequest = true;
    if (name === "id") id ??= number === undefined ? word : Number(number);
  }
  return { id, isRequest };
}

/** The strings and brackets of a text, each with the depth after it. */
function* marksIn(
  text: string,
): Generator<{ readonly at: number; readonly character: string; readonly depth: number }> {
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const character = text[at]!;
    if (character === "{" || character === "[") depth++;
    else if (character === "}" || character === "]") depth--;
    else if (character !== '"') continue;
    yield { at, character, depth };
    if (character === '"') at = endOfString(text, at);
  }
}

const NO_RESULT = { code: -32603, message: "The server sent a result that is not an object" };
