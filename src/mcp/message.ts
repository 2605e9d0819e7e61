import { pause } from "../base/signals.ts";
import { type ExactJson, isRecord, markNumbers, mayName, unmarkNumbers } from "../json/exact.ts";
import { checkJson, JsonLimitError, type JsonMeasure } from "../json/measure.ts";
import { endOfString, parsedJson, parseJson } from "../json/plain.ts";
import type { JSONRPCMessage } from "./sdk.ts";

/** A server's message exceeds a limit. */
export class UnusableMessageError extends Error {
  override readonly name: string = "UnusableMessageError";
}

/** The largest message of a server. */
export const MAX_MESSAGE_BYTES: number = 128 * 2 ** 20;

/** The most values in a message: parsing more blocks all other servers and sessions for seconds. */
const MAX_VALUES = 1_000_000;
const MAX_ALL_NAMES = 200_000;
/** The most escapes and bytes besides strings, which take ten times as long as other text. */
const MAX_ESCAPES = 2 ** 23;
const MAX_BARE_BYTES = 32 * 2 ** 20;
/** The most that the shares of these limits may add up to: each alone takes most of a second. */
const MAX_SHARES = 1.25;

/** Messages that take longer are paid back. */
const LONG_MS = 50;

/**
 * Waits for as long as a message took that is now handled, if that was long: a server may send the
 * next at once, and everything else must have half of the time at least.
 */
export async function payBack(begun: number, over?: AbortSignal | null): Promise<void> {
  const taken = performance.now() - begun;
  if (taken > LONG_MS) await pause(taken, over ?? undefined).catch(() => {}); // nobody reads on
}

/** Checks a server's message before it is parsed. */
export function checkMessage(measure: JsonMeasure): void {
  try {
    checkJson(measure, {
      maxValues: MAX_VALUES,
      maxNames: MAX_ALL_NAMES,
      maxEscapes: MAX_ESCAPES,
      maxBare: MAX_BARE_BYTES,
    });
  } catch (error) {
    if (!(error instanceof JsonLimitError)) throw error;
    throw unacceptable(error.message, error);
  }
  const { values, names, escapes, bare } = measure;
  const others = values - 2 * names;
  const shares = [others / MAX_VALUES, names / MAX_ALL_NAMES, escapes / MAX_ESCAPES];
  const total = shares.reduce((sum, share) => sum + share, bare / MAX_BARE_BYTES);
  if (total <= MAX_SHARES) return;
  throw unacceptable(
    `its ${values} values, ${names} names, ${escapes} escapes and ${bare} bytes besides strings take too ` +
      "long together",
  );
}

function unacceptable(reason: string, cause?: unknown): UnusableMessageError {
  return new UnusableMessageError(
    `An MCP server sent a message that cannot be accepted: ${reason}`,
    { cause },
  );
}

// The SDK takes a hundred times as long as the parser for each name in an object and each value of
// the wrong type. So there are lower limits for what the SDK inspects.

/** The most values in a request or a notification, which a server can send at any time. */
const MAX_UNASKED_VALUES = 10_000;
const MAX_UNASKED_NAMES = 2000;
const MAX_UNASKED_ESCAPES = 2 ** 20;
/** The most values in a response, besides its structured content and its list of tools. */
const MAX_SEEN_VALUES = 50_000;

/** Checks whether the measured text of one or more messages is too expensive for the SDK. */
export function checkCost(text: string, measure: JsonMeasure): void {
  if (isSmall(measure)) return;
  checkParsed(parsedJson(text), measure); // the parser reports what is no JSON
}

function isSmall({ values, names, escapes }: JsonMeasure): boolean {
  return names <= MAX_UNASKED_NAMES && values <= MAX_UNASKED_VALUES &&
    escapes <= MAX_UNASKED_ESCAPES;
}

function checkParsed(parsed: unknown, measure: JsonMeasure): void {
  if (isSmall(measure)) return;
  const { values, names, escapes } = measure;
  const messages: readonly unknown[] = Array.isArray(parsed) ? parsed : [parsed];
  const isUnasked = (message: unknown) => isRecord(message) && "method" in message;
  // Batches are not inspected message by message.
  if (messages.length !== 1 || messages.some(isUnasked)) {
    if (values > MAX_UNASKED_VALUES) throw tooMuch("request or notification", MAX_UNASKED_VALUES);
    if (names > MAX_UNASKED_NAMES) {
      throw tooMuch("request or notification", MAX_UNASKED_NAMES, "names");
    }
    if (escapes > MAX_UNASKED_ESCAPES) {
      throw tooMuch("request or notification", MAX_UNASKED_ESCAPES, "escapes");
    }
  } else if (hasMoreValues(withoutSealed(messages[0]), MAX_SEEN_VALUES)) {
    throw tooMuch("response", MAX_SEEN_VALUES, "values outside of structured content");
  }
}

function tooMuch(what: string, most: number, of = "values"): UnusableMessageError {
  return new UnusableMessageError(`An MCP server sent a ${what} with more than ${most} ${of}`);
}

/** A response without the parts that the SDK does not inspect. */
function withoutSealed(message: unknown): unknown {
  if (!isRecord(message) || !isRecord(message.result)) return message;
  const { structuredContent: _data, tools, ...seen } = message.result;
  return { ...message, result: Array.isArray(tools) ? seen : { ...seen, tools } };
}

function hasMoreValues(value: unknown, most: number): boolean {
  let values = 0;
  const rest: unknown[] = [value];
  for (let next = rest.pop(); next !== undefined && values <= most; next = rest.pop()) {
    if (typeof next !== "object" || next === null) continue;
    const inner = Object.values(next);
    values += inner.length;
    for (const each of inner) if (typeof each === "object" && each !== null) rest.push(each);
  }
  return values > most;
}

/** Checks the size of a message while it arrives. */
export function checkSize(bytes: number, maxBytes: number = MAX_MESSAGE_BYTES): void {
  if (bytes > maxBytes) throw tooLong(maxBytes);
}

/** The error for a message that is too large. */
export function tooLong(maxBytes: number): UnusableMessageError {
  return new UnusableMessageError(`An MCP server sent a message of more than ${maxBytes} bytes`);
}

/** Marks text that carries numbers of structured content through the SDK, which would round them. */
const MARK = `${crypto.randomUUID()}:`;
const CONTENT: readonly string[] = ["result", "structuredContent"];

/** Marks the numbers in a message's structured content that the SDK would round. */
export function markContent(text: string): string {
  return mayName(text, "structuredContent") ? markNumbers(text, MARK, CONTENT) : text;
}

/** Restores structured content as it was written. */
export function unmarkContent(value: unknown): ExactJson {
  return unmarkNumbers(value as ExactJson, MARK); // it was parsed from JSON
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
  measure: JsonMeasure,
  waiting: ReadonlyMap<string, RequestId>,
): JSONRPCMessage[] {
  try {
    return [parseMessage(text, measure)];
  } catch (error) {
    if (!(error instanceof SyntaxError) || !text.includes(MESSAGE)) throw error;
  }
  return documentsIn(text).flatMap((part) => {
    try {
      return [parseMessage(part, measure)];
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
      return part.includes(MESSAGE) ? errorsInstead(part, error, waiting) : [];
    }
  });
}

/** What every message has, and few other lines. */
const MESSAGE = '"jsonrpc"';

/** Parses a measured message, unless that is too expensive. Numbers in structured content are marked. */
export function parseMessage(text: string, measure: JsonMeasure): JSONRPCMessage {
  const message: unknown = parseJson(markContent(text));
  checkParsed(message, measure);
  if (!isRecord(message)) throw new TypeError("A message is an object");
  // The SDK would not treat this as a response, and the request would never settle.
  if ("result" in message && !isRecord(message.result)) {
    return { jsonrpc: "2.0", id: message.id, error: NO_RESULT } as JSONRPCMessage;
  }
  return message as JSONRPCMessage; // the SDK checks both
}

/** The message to deliver in place of an answer that cannot be used. */
export function errorAnswer(id: RequestId, message: string): JSONRPCMessage {
  return { jsonrpc: "2.0", id, error: { code: -32603, message } };
}

/** Says that an answer is not JSON. The tool has run: its caller should know. */
export function notJson({ message }: SyntaxError): string {
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

/** Splits a text behind each object and list in it. */
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

/** What the names of a message say, although the message is not JSON. */
export function topOf(
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

/** The strings and brackets of a text, each with the depth behind it. */
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

/** The most memory for the incoming messages of all servers together. */
const MAX_BYTES = 256 * 2 ** 20;

/**
 * Limits the memory of messages while they arrive. Servers decide how many messages arrive at a
 * time and how long they take, and a few hundred compressed bytes can become a megabyte here.
 *
 * When the limit is reached, the largest message of the owner that uses the most memory is dropped.
 * So nobody waits, and an owner that uses little loses nothing to the others.
 */
export class MessageBudget {
  readonly #maxBytes: number;
  readonly #messages = new Set<IncomingMessage>();
  #bytes = 0;

  /** @param maxBytes The limit. */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Starts counting a message. */
  begin(owner: object): IncomingMessage {
    const message: IncomingMessage = new IncomingMessage(owner, (count) => {
      if (message.bytes === 0) this.#messages.delete(message);
      else this.#messages.add(message);
      this.#bytes += count;
      while (this.#bytes > this.#maxBytes) this.#dropOne();
    });
    return message;
  }

  #dropOne(): void {
    const taken = new Map<object, number>();
    for (const { owner, bytes } of this.#messages) {
      taken.set(owner, (taken.get(owner) ?? 0) + bytes);
    }
    const most = Math.max(...taken.values());
    const those = [...this.#messages].filter(({ owner }) => taken.get(owner) === most);
    those.reduce((one, other) => other.bytes > one.bytes ? other : one).drop(
      new UnusableMessageError(
        `The messages in transit from MCP servers exceed ${this.#maxBytes} bytes ` +
          "in total, and this is the largest: make fewer calls at a time, or request less data",
      ),
    );
  }
}

/** The limit for this process. */
export const hostBudget: MessageBudget = new MessageBudget(MAX_BYTES);

/** A message while it arrives, or successive messages of a stream. Disposing it releases its memory. */
export class IncomingMessage implements Disposable {
  /** The session that receives it. */
  readonly owner: object;
  readonly #resized: (count: number) => void;
  readonly #dropped = new AbortController();
  /** Aborts, with an error as its reason, when the message is dropped to free memory. */
  readonly dropped: AbortSignal = this.#dropped.signal;
  #bytes = 0;

  constructor(owner: object, resized: (count: number) => void) {
    this.owner = owner;
    this.#resized = resized;
  }

  /** The bytes counted so far. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Counts the next piece. */
  add(count: number): void {
    this.dropped.throwIfAborted();
    this.#resize(this.#bytes + count);
    this.dropped.throwIfAborted();
  }

  /** Ends a message; another one may follow. */
  end(): void {
    this.#resize(0);
  }

  /** Releases its memory and stops its reader. */
  drop(reason: UnusableMessageError): void {
    this.#resize(0);
    this.#dropped.abort(reason);
  }

  [Symbol.dispose](): void {
    this.#resize(0);
  }

  #resize(bytes: number): void {
    const count = bytes - this.#bytes;
    if (count === 0) return;
    this.#bytes = bytes;
    this.#resized(count);
  }
}
