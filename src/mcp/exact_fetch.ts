import { ByteBuffer, joinBytes, readWhole } from "../base/bytes.ts";
import { bodyOf } from "../base/http.ts";
import { fairTurns } from "../base/signals.ts";
import { isRecord } from "../json/exact.ts";
import { JsonMeter, measureJson } from "../json/measure.ts";
import { withPlainNames } from "../json/plain.ts";
import {
  checkCost,
  checkMessage,
  checkSize,
  hostBudget,
  type IncomingMessage,
  markContent,
  MAX_MESSAGE_BYTES,
  payBack,
  tooLong,
  UnusableMessageError,
} from "./message.ts";
import type { FetchLike } from "./sdk.ts";

/** The most bytes to read without a complete event: twice the largest one. */
const MAX_EVENTLESS_BYTES = 2 * MAX_MESSAGE_BYTES;
/** The most bytes to read of an error response. */
const MAX_FAILURE_BYTES = 2 ** 20;

/** Creates the `fetch` for the SDK, which would round numbers, leave responses open and read without limit. */
export function exactFetch(owner: object): FetchLike {
  return async (url, init) => {
    const response = await fetch(url, init);
    const { status, statusText } = response;
    const body = bodyOf(response, init?.signal);
    const type = response.headers.get("content-type")?.split(";", 1)[0]?.trim().toLowerCase();
    const headers = withoutLength(response.headers);
    const isEvents = type === "text/event-stream" || (init?.method ?? "GET") === "GET";
    // The SDK reads the response to a GET as events, whatever its type.
    if (status < 400 && body !== null && isEvents) {
      const instead = (error: unknown) => errorMessage(error, init);
      const incoming = hostBudget.begin(owner);
      const signal = init?.signal;
      const events = new EventStream({ incoming, data: textForSdk, instead, signal });
      return new Response(body.pipeThrough(events), { status, statusText, headers });
    }
    using incoming = hostBudget.begin(owner);
    if (status < 400 && body !== null && type === "application/json") {
      const text = await jsonText(body, incoming).catch((error) => errorMessage(error, init));
      return new Response(textForSdk(text), { status, statusText, headers });
    }
    // The SDK has no use for the rest but reads it to the end.
    const said = body === null ? null : await read(body, incoming, MAX_FAILURE_BYTES);
    return new Response(said, { status, statusText, headers });
  };
}

function textForSdk(text: string): string {
  return withPlainNames(markContent(text));
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

/** The JSON-RPC error that replaces an unusable response: the SDK keeps waiting when a stream fails. */
function errorMessage(error: unknown, init: RequestInit | undefined): string {
  const request: unknown = typeof init?.body === "string" ? JSON.parse(init.body) : undefined;
  const isAnswer = error instanceof UnusableMessageError && isRecord(request) && "id" in request;
  if (!isAnswer) throw error;
  const { id } = request;
  return JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32603, message: error.message } });
}

/** The headers of a response whose body was read and is sent on in another form. */
export function withoutLength(given: Headers): Headers {
  const headers = new Headers(given);
  headers.delete("content-length"); // the body changes
  headers.delete("content-encoding"); // it is already decoded
  return headers;
}

async function read(
  body: ReadableStream<Uint8Array>,
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

/** Options of {@linkcode EventStream}. */
interface EventStreamOptions {
  /** Counts the received bytes. The stream owns it from here on. */
  readonly incoming: IncomingMessage;
  /** Transforms the data of an event. */
  readonly data: (text: string) => string;
  /** The data that replaces an unusable event. If it throws, the stream ends. */
  readonly instead: (error: unknown) => string;
  /** Aborts when the connection is closed. */
  readonly signal?: AbortSignal | null | undefined;
}

/**
 * Reads a stream of events and re-encodes each once it is complete. So the next reader gets only
 * measured fields and never stores a partial event.
 *
 * @see {@link https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream}
 */
export class EventStream extends TransformStream<Uint8Array, Uint8Array> {
  /** @param options How events are counted and transformed. */
  constructor({ incoming, data, instead, signal }: EventStreamOptions) {
    const reader = new EventReader(incoming, data);
    let eventless = 0;
    super({
      start(controller) {
        incoming.dropped.addEventListener("abort", () => {
          end(incoming.dropped.reason, controller);
        }, { once: true });
      },
      async transform(chunk, controller) {
        try {
          fairTurns.resume();
          eventless += chunk.length;
          let begun = performance.now();
          for (const event of reader.read(chunk)) {
            eventless = 0;
            controller.enqueue(event);
            await fairTurns.giveWay(); // even if the server writes without end
            await payBack(begun, signal);
            begun = performance.now();
          }
          if (eventless > MAX_EVENTLESS_BYTES) throw tooLong(MAX_EVENTLESS_BYTES);
          await fairTurns.giveWay(); // even without complete events: a few compressed bytes can expand to many
        } catch (error) {
          if (!incoming.dropped.aborted) end(error, controller);
        }
      },
      flush: () => incoming.end(), // an incomplete event is discarded
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
/** May begin a stream, and is ignored. */
const BYTE_ORDER_MARK = "\xef\xbb\xbf";
const FIELDS: readonly string[] = ["data", "event", "id", "retry"];
/** The longest name to collect: longer ones are unknown. */
const MAX_NAME = 16;
/** The most bytes of other fields than data: a longer id would be sent back to the server. */
const MAX_FIELD = 8192;
/** The most data lines in one event: the next reader joins them one by one. */
const MAX_LINES = 100_000;

/** A server that ends its stream and requests an immediate reconnection would keep the host busy. */
const MIN_RETRY_MS = 250;

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** Reads events whose lines end with a line feed, a carriage return or both. */
class EventReader {
  readonly #incoming: IncomingMessage;
  readonly #write: (text: string) => string;
  #fields = new Map<string, ByteBuffer>();
  #lines = 0;
  #meter = new JsonMeter();
  /** The field name in this line so far, one character for each byte. */
  #name = "";
  /** Whether the name is complete. */
  #named = false;
  /** Where this line's value goes; `undefined` for unknown fields. */
  #value: ByteBuffer | undefined;
  #atValue = false;
  #isFirstLine = true;
  #afterReturn = false;

  constructor(incoming: IncomingMessage, write: (text: string) => string) {
    this.#incoming = incoming;
    this.#write = write;
  }

  /** Reads the next chunk and yields complete events; throws if one is too large. */
  *read(chunk: Uint8Array): Generator<Uint8Array> {
    for (let at = 0; at < chunk.length;) {
      const end = lineEnd(chunk, at);
      // A line feed after a carriage return does not end another line.
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
    if (this.#name !== "data" && this.#value.length + value.length > MAX_FIELD) {
      this.#fields.delete(this.#name);
      this.#value = undefined;
      return;
    }
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
    this.#value = lines ?? new ByteBuffer(); // for other fields, the last one counts
    this.#fields.set(this.#name, this.#value);
    if (lines === undefined) return;
    lines.add(encoder.encode("\n"));
    if (++this.#lines >= MAX_LINES) {
      throw new UnusableMessageError(
        `An MCP server sent an event of more than ${MAX_LINES} lines`,
      );
    }
  }

  /** Ends a line and returns the event that ends with it, if any. */
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

/** How long a server asks its reader to wait before reconnecting; other texts are ignored. */
function retryOf(text: string): number | string {
  return /^\d+$/.test(text) ? Math.max(MIN_RETRY_MS, Number(text)) : text;
}

function lineEnd(chunk: Uint8Array, at: number): number {
  while (at < chunk.length && chunk[at] !== LINE_FEED && chunk[at] !== CARRIAGE_RETURN) at++;
  return at;
}
