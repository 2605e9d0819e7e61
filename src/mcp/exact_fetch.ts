import { ByteBuffer, joinBytes, readWhole } from "../base/bytes.ts";
import { bodyOf } from "../base/http.ts";
import { FairTurns } from "../base/signals.ts";
import {
  type ExactJson,
  isExactObject,
  isRecord,
  mayName,
  parseExact,
  stringifyExact,
} from "../json/exact.ts";
import { JsonMeter, measureJson } from "../json/measure.ts";
import {
  checkCost,
  checkMessage,
  checkSize,
  hostRoom,
  type IncomingMessage,
  MAX_MESSAGE_BYTES,
  tooLong,
  UnusableMessageError,
} from "./message.ts";
import type { FetchLike } from "./sdk.ts";

/**
 * What begins a text that stands for exact structured content on its way through the SDK, which would
 * read its numbers as doubles. No server knows it.
 */
const MARK = `${crypto.randomUUID()}:`;

/** The most that is read without a whole event: twice what the longest one has. */
const MAX_EVENTLESS_BYTES = 2 * MAX_MESSAGE_BYTES;
/** The most that is read of what a failure says. */
const MAX_FAILURE_BYTES = 2 ** 20;

/**
 * Makes the `fetch` for the SDK: structured content keeps its numbers as they were written, the body of
 * a failure is read, because the SDK leaves some of them open, and what is too large ends in an error.
 */
export function exactFetch(owner: object): FetchLike {
  return async (url, init) => {
    const response = await fetch(url, init);
    const { status, statusText } = response;
    const body = bodyOf(response, init?.signal);
    const type = response.headers.get("content-type")?.split(";", 1)[0]?.trim().toLowerCase();
    const headers = withoutLength(response.headers);
    const isEvents = type === "text/event-stream" || (init?.method ?? "GET") === "GET";
    // The SDK reads what answers a GET as events, whatever type it has.
    if (status < 400 && body !== null && isEvents) {
      const instead = (error: unknown) => errorMessage(error, init);
      const incoming = hostRoom.begin(owner);
      const events = new EventStream({ incoming, data: markText, instead });
      return new Response(body.pipeThrough(events), { status, statusText, headers });
    }
    using incoming = hostRoom.begin(owner);
    if (status < 400 && body !== null && type === "application/json") {
      const text = await jsonText(body, incoming).catch((error) => errorMessage(error, init));
      return new Response(markText(text), { status, statusText, headers });
    }
    // The rest is of no use to the SDK, which reads it to its end all the same.
    const said = body === null ? null : await read(body, incoming, MAX_FAILURE_BYTES);
    return new Response(said, { status, statusText, headers });
  };
}

async function jsonText(
  body: ReadableStream<Uint8Array>,
  incoming: IncomingMessage,
): Promise<string> {
  const bytes = await read(body, incoming, MAX_MESSAGE_BYTES);
  const measure = measureJson(bytes);
  checkMessage(measure);
  const text = new TextDecoder().decode(bytes);
  checkCost(text, measure);
  return text;
}

/**
 * Answers a request in the place of a server whose answer cannot be taken: the SDK continues waiting when
 * a stream fails.
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
  incoming: IncomingMessage,
  maxBytes: number,
): Promise<Uint8Array<ArrayBuffer>> {
  return await readWhole(body, {
    maxBytes,
    tooLong: () => tooLong(maxBytes),
    onPiece: (size) => incoming.add(size),
    signal: incoming.dropped,
  });
}

/** Gives structured content as it was written. */
export function unmarked(value: unknown): unknown {
  if (typeof value !== "string" || !value.startsWith(MARK)) return value;
  return parseExact(value.slice(MARK.length));
}

function markText(text: string): string {
  if (!mayName(text, "structuredContent")) return text;
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

/** What an {@linkcode EventStream} needs. */
interface EventStreamOptions {
  /** Counts what comes, which the stream owns from here. */
  readonly incoming: IncomingMessage;
  /** What stands for the data of an event. */
  readonly data: (text: string) => string;
  /** The data that stands for an event which cannot be taken. It may throw, which ends the stream. */
  readonly instead: (error: unknown) => string;
}

/**
 * Reads a stream of events and writes each again once it is whole. So what reads them next sees fields
 * that were measured and nothing else, and keeps no part of an event.
 *
 * @see {@link https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream}
 */
export class EventStream extends TransformStream<Uint8Array, Uint8Array> {
  /** @param options What is done with events. */
  constructor({ incoming, data, instead }: EventStreamOptions) {
    const reader = new EventReader(incoming, data);
    const turns = new FairTurns();
    let eventless = 0;
    super({
      start(controller) {
        incoming.dropped.addEventListener("abort", () => {
          end(incoming.dropped.reason, controller);
        }, { once: true });
      },
      async transform(chunk, controller) {
        try {
          eventless += chunk.length;
          for (const event of reader.read(chunk)) {
            eventless = 0;
            controller.enqueue(event);
            await turns.giveWay(); // also from a server that writes without end
          }
          if (eventless > MAX_EVENTLESS_BYTES) throw tooLong(MAX_EVENTLESS_BYTES);
          await turns.giveWay(); // or nothing whole, of which a few packed bytes make a lot
        } catch (error) {
          if (!incoming.dropped.aborted) end(error, controller);
        }
      },
      flush: () => incoming.end(), // an event that is not whole is none
      cancel: () => incoming.end(),
    });

    function end(error: unknown, controller: TransformStreamDefaultController<Uint8Array>): void {
      incoming.end();
      try {
        controller.enqueue(encoder.encode(`data: ${instead(error)}\n\n`));
        controller.terminate();
      } catch (thrown) {
        controller.error(thrown);
      }
    }
  }
}

const LINE_FEED = 10;
const CARRIAGE_RETURN = 13;
const SPACE = 32;
const COLON = 58;
/** What begins a stream, and means nothing. */
const BYTE_ORDER_MARK = "\xef\xbb\xbf";
const FIELDS: readonly string[] = ["data", "event", "id", "retry"];
/** Names are read to here; no longer one is known. */
const MAX_NAME = 16;
/** The most lines of data of one event: those who read it next join them one by one. */
const MAX_LINES = 100_000;

/** A stream that a server ends and wants reopened immediately would keep the host busy. */
const MIN_RETRY_MS = 250;

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** Reads events, whose lines end with a line feed, a carriage return or both. */
class EventReader {
  readonly #incoming: IncomingMessage;
  readonly #write: (text: string) => string;
  #fields = new Map<string, ByteBuffer>();
  #lines = 0;
  #meter = new JsonMeter();
  /** The name in this line so far, each byte a character. */
  #name = "";
  /** Whether the name is at its end. */
  #named = false;
  /** Where the value in this line goes: nowhere where the name is not known. */
  #value: ByteBuffer | undefined;
  #atValue = false;
  #isFirstLine = true;
  #afterReturn = false;

  constructor(incoming: IncomingMessage, write: (text: string) => string) {
    this.#incoming = incoming;
    this.#write = write;
  }

  /** Takes what comes next and gives the events that are whole; throws where one is too large. */
  *read(chunk: Uint8Array): Generator<Uint8Array> {
    for (let at = 0; at < chunk.length;) {
      const end = lineEnd(chunk, at);
      // The line feed after a carriage return does not end another line.
      const isRest = end === at && chunk[at] === LINE_FEED && this.#afterReturn;
      if (end > at) this.#take(chunk.subarray(at, end));
      if (end === chunk.length) {
        this.#afterReturn = false;
        return;
      }
      if (!isRest) {
        const event = this.#endLine();
        if (event !== undefined) yield event;
      }
      this.#afterReturn = chunk[end] === CARRIAGE_RETURN;
      at = end + 1;
    }
  }

  #take(part: Uint8Array): void {
    let at = 0;
    while (!this.#named && at < part.length) this.#takeName(part[at++]!);
    if (this.#atValue && at < part.length) {
      if (part[at] === SPACE) at++;
      this.#atValue = false;
    }
    const value = part.subarray(at);
    if (this.#value === undefined || value.length === 0) return;
    this.#incoming.add(value.length);
    checkSize(this.#incoming.bytes);
    this.#value.add(value);
    if (this.#name !== "data") return;
    this.#meter.add(value);
    checkMessage(this.#meter);
  }

  #takeName(byte: number): void {
    if (byte === COLON) return this.#endName();
    if (this.#name.length < MAX_NAME) this.#name += String.fromCharCode(byte);
    if (this.#isFirstLine && this.#name === BYTE_ORDER_MARK) this.#name = "";
  }

  #endName(): void {
    [this.#named, this.#atValue] = [true, true];
    if (!FIELDS.includes(this.#name)) return;
    const lines = this.#name === "data" ? this.#fields.get("data") : undefined;
    this.#value = lines ?? new ByteBuffer(); // a later one of the others counts
    this.#fields.set(this.#name, this.#value);
    if (lines === undefined) return;
    lines.add(encoder.encode("\n"));
    if (++this.#lines >= MAX_LINES) {
      throw new UnusableMessageError(
        `An MCP server sent an event of more than ${MAX_LINES} lines`,
      );
    }
  }

  /** Ends a line, and gives the event that ends with it. */
  #endLine(): Uint8Array | undefined {
    const isEmpty = this.#name === "" && !this.#named;
    if (!isEmpty && !this.#named) this.#endName();
    [this.#name, this.#named, this.#atValue] = ["", false, false];
    [this.#value, this.#isFirstLine] = [undefined, false];
    if (!isEmpty || this.#fields.size === 0) return undefined;
    const [fields, meter] = [this.#fields, this.#meter];
    [this.#fields, this.#meter, this.#lines] = [new Map(), new JsonMeter(), 0];
    this.#incoming.end();
    const parts = [...fields].map(([name, value]) => this.#field(name, value.take(), meter));
    return joinBytes(...parts, encoder.encode("\n"));
  }

  #field(name: string, value: Uint8Array, meter: JsonMeter): Uint8Array {
    if (name === "retry") return encoder.encode(`retry: ${retryOf(decoder.decode(value))}\n`);
    if (name !== "data") return joinBytes(encoder.encode(`${name}: `), value, encoder.encode("\n"));
    const data = decoder.decode(value);
    checkCost(data, meter);
    const text = this.#write(data);
    return encoder.encode(`data: ${text.replaceAll("\n", "\ndata: ")}\n`);
  }
}

/** How long a server wants its reader to wait before the next connection; other texts mean nothing. */
function retryOf(text: string): number | string {
  return /^\d+$/.test(text) ? Math.max(MIN_RETRY_MS, Number(text)) : text;
}

function lineEnd(chunk: Uint8Array, at: number): number {
  while (at < chunk.length && chunk[at] !== LINE_FEED && chunk[at] !== CARRIAGE_RETURN) at++;
  return at;
}
