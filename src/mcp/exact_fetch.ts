import { type ExactJson, isExactObject, parseExact, stringifyExact } from "../json/exact.ts";
import { isRecord } from "../json/record.ts";
import { bodyOf } from "../net/body_of.ts";
import { readWhole } from "../net/byte_buffer.ts";
import { EventStream } from "./event_stream.ts";
import { checkMessage, MAX_MESSAGE_BYTES, tooLong, UnusableMessageError } from "./message.ts";
import { hostRoom, type IncomingMessage } from "./message_room.ts";
import type { FetchLike } from "./sdk.ts";

/**
 * What begins a text that stands for exact structured content on its way through the SDK, which would
 * read its numbers as doubles. No server knows it.
 */
const MARK = `${crypto.randomUUID()}:`;

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
  checkMessage(bytes);
  return new TextDecoder().decode(bytes);
}

/**
 * Answers a request in the place of a server whose answer cannot be taken: the SDK goes on waiting when
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
