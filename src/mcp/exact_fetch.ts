import { type ExactJson, isExactObject, parseExact, stringifyExact } from "../json/exact.ts";
import type { FetchLike } from "./sdk.ts";

/**
 * What begins a text that stands for exact structured content on its way through the SDK, which would
 * read its numbers as doubles. No server knows it.
 */
const MARK = `${crypto.randomUUID()}:`;

/**
 * Fetches for the SDK: structured content keeps its numbers as they were written, and the body of a
 * failure is read, because the SDK leaves some of them open.
 */
export const exactFetch: FetchLike = async (url, init) => {
  const response = await fetch(url, init);
  const { status, statusText, body } = response;
  if (status >= 400) {
    return new Response(await response.text(), { status, statusText, headers: response.headers });
  }
  const type = response.headers.get("content-type")?.split(";", 1)[0]?.trim().toLowerCase();
  const headers = new Headers(response.headers);
  headers.delete("content-length"); // the body gets another one
  headers.delete("content-encoding"); // and is decoded already
  if (type === "application/json") {
    return new Response(markText(await response.text()), { status, statusText, headers });
  }
  if (type === "text/event-stream" && body !== null) {
    const marked = body.pipeThrough(new TextDecoderStream())
      .pipeThrough(new EventMarker())
      .pipeThrough(new TextEncoderStream());
    return new Response(marked, { status, statusText, headers });
  }
  return response;
};

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

const FIELD = "data:";

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
