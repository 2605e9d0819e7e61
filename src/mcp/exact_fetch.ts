import { type ExactJson, isExactObject, parseExact, stringifyExact } from "../json/exact.ts";
import { JsonMeter } from "../json/measure.ts";
import { isRecord } from "../json/record.ts";
import { bodyOf } from "../net/body_of.ts";
import { checkMessage, MAX_MESSAGE_BYTES, UnusableMessageError } from "./message.ts";
import type { FetchLike } from "./sdk.ts";

/**
 * What begins a text that stands for exact structured content on its way through the SDK, which would
 * read its numbers as doubles. No server knows it.
 */
const MARK = `${crypto.randomUUID()}:`;

/** The most that is read of what a failure says. */
const MAX_FAILURE_BYTES = 2 ** 20;

/**
 * Fetches for the SDK: structured content keeps its numbers as they were written, the body of a failure
 * is read, because the SDK leaves some of them open, and what is too large ends in an error.
 */
export const exactFetch: FetchLike = async (url, init) => {
  const response = await fetch(url, init);
  const { status, statusText } = response;
  const body = bodyOf(response, init?.signal);
  if (status >= 400) {
    const said = await read(body, MAX_FAILURE_BYTES);
    return new Response(said, { status, statusText, headers: withoutLength(response.headers) });
  }
  const type = response.headers.get("content-type")?.split(";", 1)[0]?.trim().toLowerCase();
  const headers = withoutLength(response.headers);
  if (body === null) return new Response(null, { status, statusText, headers });
  // The SDK reads what answers a GET as events, whatever type it has.
  if (type === "text/event-stream" || (init?.method ?? "GET") === "GET") {
    const marked = body.pipeThrough(new EventLimiter((error) => errorMessage(error, init)))
      .pipeThrough(new TextDecoderStream())
      .pipeThrough(new EventMarker())
      .pipeThrough(new TextEncoderStream());
    return new Response(marked, { status, statusText, headers });
  }
  if (type === "application/json") {
    const text = await jsonText(body).catch((error: unknown) => errorMessage(error, init));
    return new Response(markText(text), { status, statusText, headers });
  }
  // Of no use to the SDK, which reads it to its end all the same.
  return new Response(await read(body, MAX_FAILURE_BYTES), { status, statusText, headers });
};

async function jsonText(body: ReadableStream<Uint8Array> | null): Promise<string> {
  const bytes = await read(body, MAX_MESSAGE_BYTES);
  checkMessage(bytes);
  return new TextDecoder().decode(bytes);
}

/**
 * Answers a request in the place of a server whose answer cannot be taken: the SDK goes on waiting when
 * a stream fails.
 *
 * @throws {unknown} The error, where what cannot be taken is not the answer to a request.
 */
function errorMessage(error: unknown, init: RequestInit | undefined): string {
  const request: unknown = typeof init?.body === "string" ? JSON.parse(init.body) : undefined;
  const isAnswer = error instanceof UnusableMessageError && isRecord(request) && "id" in request;
  if (!isAnswer) throw error;
  const { id } = request;
  return JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32603, message: error.message } });
}

function withoutLength(given: Headers): Headers {
  const headers = new Headers(given);
  headers.delete("content-length"); // the body gets another one
  headers.delete("content-encoding"); // and is decoded already
  return headers;
}

/** Reads a body to its end. */
async function read(
  body: ReadableStream<Uint8Array> | null,
  maxBytes: number,
): Promise<Uint8Array<ArrayBuffer>> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of body ?? []) {
    size += part.length;
    if (size > maxBytes) throw tooLong(maxBytes);
    parts.push(part);
  }
  const whole = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

function tooLong(maxBytes: number): UnusableMessageError {
  return new UnusableMessageError(`An MCP server sent a message above ${maxBytes} bytes`);
}

const LINE_FEED = 10;
const CARRIAGE_RETURN = 13;
const FIELD = "data:";
const encoder = new TextEncoder();

/** Ends a stream of events where one of them is too large: the SDK keeps all of it until it ends. */
class EventLimiter extends TransformStream<Uint8Array, Uint8Array> {
  /** @param instead Gives the message that stands for the one that is too large, or throws. */
  constructor(instead: (error: unknown) => string) {
    const size = new EventSize();
    super({
      transform(chunk, controller) {
        try {
          size.add(chunk);
          controller.enqueue(chunk);
        } catch (error) {
          controller.enqueue(encoder.encode(`\n\n${FIELD} ${instead(error)}\n\n`));
          controller.terminate();
        }
      },
    });
  }
}

/**
 * Measures the data of each event of a stream, which is what is parsed: other lines count as bytes
 * only. Lines end with a line feed, a carriage return or both.
 *
 * @see {@link https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream}
 */
class EventSize {
  #meter = new JsonMeter();
  #bytes = 0;
  /** The bytes of this line so far, as far as they are the name of the field. */
  #named = 0;
  #lineIsEmpty = true;
  #isFirstLine = true;
  #afterReturn = false;

  /** Takes what comes next; throws where an event is too large. */
  add(chunk: Uint8Array): void {
    for (let at = 0; at < chunk.length;) {
      const end = lineEnd(chunk, at);
      this.#line(chunk.subarray(at, end));
      if (end === chunk.length) return;
      // The line feed after a carriage return ends no line of its own.
      if (!(chunk[end] === LINE_FEED && this.#afterReturn && end === at)) this.#endLine();
      this.#afterReturn = chunk[end] === CARRIAGE_RETURN;
      at = end + 1;
    }
  }

  #line(part: Uint8Array): void {
    if (part.length === 0) return;
    this.#afterReturn = false;
    let start = 0;
    // Decoding takes a byte order mark away, and the SDK's parser another one.
    if (this.#isFirstLine && this.#lineIsEmpty) {
      while (BYTE_ORDER_MARK.includes(part[start]!)) start++;
    }
    if (start < part.length) this.#lineIsEmpty = false;
    while (start < part.length && this.#named >= 0 && this.#named < NAME.length) {
      this.#named = part[start++] === NAME[this.#named] ? this.#named + 1 : -1;
    }
    if (this.#named === NAME.length) this.#meter.add(part.subarray(start));
    this.#bytes += part.length;
    if (this.#bytes > MAX_MESSAGE_BYTES) throw tooLong(MAX_MESSAGE_BYTES);
    checkMessage(this.#meter);
  }

  #endLine(): void {
    if (this.#lineIsEmpty) [this.#meter, this.#bytes] = [new JsonMeter(), 0]; // the event's end
    [this.#lineIsEmpty, this.#isFirstLine, this.#named] = [true, false, 0];
  }
}

const NAME = encoder.encode(FIELD);
const BYTE_ORDER_MARK = encoder.encode("\uFEFF");

function lineEnd(chunk: Uint8Array, at: number): number {
  while (at < chunk.length && chunk[at] !== LINE_FEED && chunk[at] !== CARRIAGE_RETURN) at++;
  return at;
}

/**
 * Gives structured content as it was written.
 *
 * @param value What the SDK gave.
 * @returns The exact value, where it came by {@linkcode exactFetch}; else the same value.
 */
export function unmarked(value: unknown): unknown {
  if (typeof value !== "string" || !value.startsWith(MARK)) return value;
  return parseExact(value.slice(MARK.length));
}

function markText(text: string): string {
  if (!text.includes('"structuredContent"')) return text;
  try {
    const message = parseExact(text);
    if (!isExactObject(message) || !isExactObject(message.result)) return text;
    const { structuredContent } = message.result;
    if (structuredContent === undefined) return text;
    const result = { ...message.result, structuredContent: marked(structuredContent) };
    return stringifyExact({ ...message, result });
  } catch {
    return text; // the SDK says what is wrong with it
  }
}

function marked(value: ExactJson): string {
  return MARK + stringifyExact(value);
}

/** Marks the messages in a stream of events, line by line. */
class EventMarker extends TransformStream<string, string> {
  constructor() {
    let parts: string[] = [];
    super({
      transform(chunk, controller) {
        const end = chunk.lastIndexOf("\n");
        // Lines may also end with a carriage return alone; such streams pass as they are.
        if (end === -1 && !/\r./s.test(chunk)) return void parts.push(chunk);
        const whole = parts.join("") + chunk.slice(0, end + 1);
        parts = end === -1 ? [] : [chunk.slice(end + 1)];
        const lines = end === -1 ? whole + chunk : whole.split("\n").map(markLine).join("\n");
        controller.enqueue(lines);
      },
      flush(controller) {
        const rest = parts.join("");
        if (rest !== "") controller.enqueue(rest);
      },
    });
  }
}

/** Only a message in a line of its own is marked; servers write it so, but need not. */
function markLine(line: string): string {
  return line.startsWith(FIELD) ? FIELD + markText(line.slice(FIELD.length)) : line;
}
