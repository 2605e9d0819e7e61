import { createParser, type EventSourceMessage } from "eventsource-parser";
import { readWhole } from "../base/bytes.ts";
import { bodyOf } from "../base/http.ts";
import { isRecord } from "../json/exact.ts";
import {
  errorAnswer,
  MAX_MESSAGE_BYTES,
  type RequestId,
  textForSdk,
  tooLong,
  UnusableMessageError,
} from "./message.ts";
import type { FetchLike } from "./sdk.ts";

/** The most bytes to read of an error response. */
const MAX_FAILURE_BYTES = 2 ** 20;

/** The `fetch` for the SDK, which would round numbers, leave responses open and read without limit. */
export const exactFetch: FetchLike = async (url, init) => {
  const response = await fetch(url, init);
  const { status, statusText } = response;
  const body = bodyOf(response, init?.signal);
  const type = response.headers.get("content-type")?.split(";", 1)[0]?.trim().toLowerCase();
  const headers = withoutLength(response.headers);
  const request = () => requestIn(init);
  const isEvents = type === "text/event-stream" || (init?.method ?? "GET") === "GET";
  // The SDK reads the response to a GET as events, whatever its type.
  if (status < 400 && body !== null && isEvents) {
    const events = body.pipeThrough(new EventStream(request));
    return new Response(events, { status, statusText, headers });
  }
  if (status < 400 && body !== null && type === "application/json") {
    const text = await jsonText(body, request);
    return new Response(text, { status, statusText, headers });
  }
  // The SDK has no use for the rest but reads it to the end.
  const said = body === null ? null : await read(body, MAX_FAILURE_BYTES);
  return new Response(said, { status, statusText, headers });
};

/** The id of the sent message, if it is a request. */
function requestIn(init: RequestInit | undefined): RequestId | undefined {
  const message: unknown = typeof init?.body === "string" ? JSON.parse(init.body) : undefined;
  if (!isRecord(message) || !("method" in message)) return undefined;
  return typeof message.id === "string" || typeof message.id === "number" ? message.id : undefined;
}

async function jsonText(
  body: ReadableStream<Uint8Array>,
  request: () => RequestId | undefined,
): Promise<string> {
  try {
    const bytes = await read(body, MAX_MESSAGE_BYTES);
    return textForSdk(new TextDecoder().decode(bytes), request);
  } catch (error) {
    return errorText(error, request());
  }
}

/** The JSON-RPC error that replaces an unusable response: the SDK keeps waiting when a stream fails. */
function errorText(error: unknown, id: RequestId | undefined): string {
  if (!(error instanceof UnusableMessageError) || id === undefined) throw error;
  return JSON.stringify(errorAnswer(id, error.message));
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
  maxBytes: number,
): Promise<Uint8Array<ArrayBuffer>> {
  return await readWhole(body, { maxBytes, tooLong: () => tooLong(maxBytes) });
}

/** A server that ends its stream and requests an immediate reconnection would keep the host busy. */
const MIN_RETRY_MS = 250;
/** The SDK forgets some of its timers, which keep this process alive. */
const MAX_RETRY_MS = 60_000;

const encoder = new TextEncoder();

/** Rewrites the messages in a stream of events. One that is too large ends the stream. */
export class EventStream extends TransformStream<Uint8Array, Uint8Array> {
  /** @param request The id of the request that the stream answers. */
  constructor(request: () => RequestId | undefined) {
    const decoder = new TextDecoder();
    let write: (text: string) => void = () => {};
    const parser = createParser({
      maxBufferSize: MAX_MESSAGE_BYTES,
      onEvent: (event) => write(eventText(event, request)),
      onRetry: (ms) => write(`retry: ${Math.min(Math.max(MIN_RETRY_MS, ms), MAX_RETRY_MS)}\n\n`),
      onError: ({ type }) => {
        if (type === "max-buffer-size-exceeded") throw tooLong(); // other lines are ignored
      },
    });
    super({
      transform(chunk, controller) {
        write = (text) => controller.enqueue(encoder.encode(text));
        try {
          parser.feed(decoder.decode(chunk, { stream: true }));
        } catch (error) {
          write(`data: ${errorText(error, request())}\n\n`);
          controller.terminate();
        }
      },
    });
  }
}

/** An event as it was sent, but for a message in it. */
function eventText(
  { id, event, data }: EventSourceMessage,
  request: () => RequestId | undefined,
): string {
  const isMessage = data !== "" && (event === undefined || event === "message");
  const text = isMessage ? textForSdk(data, request) : data;
  return (id === undefined ? "" : `id: ${id}\n`) +
    (event === undefined ? "" : `event: ${event}\n`) +
    `data: ${text.replaceAll("\n", "\ndata: ")}\n\n`;
}
