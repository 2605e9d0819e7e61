import { Refused } from "./door.ts";

/** The head of a request. */
export interface RequestHead {
  /** The method, such as `"POST"`. */
  readonly method: string;
  /** The path, as it was sent, with the query. */
  readonly target: string;
  /** The headers, by their names in lower case. */
  readonly headers: ReadonlyMap<string, string>;
  /** The size of the body, in bytes. */
  readonly length: number;
  /** Whether there may be another request on the same connection. */
  readonly keep: boolean;
}

/** The longest head, in bytes. */
export const MAX_HEAD = 16_384;
/** The most headers. */
const MAX_HEADERS = 64;

const REQUEST_LINE = /^([A-Z]{1,16}) (\/[!-~]*) HTTP\/(\d)\.(\d)$/;
const HEADER = "[!#$%&'*+\\-.^_`|~0-9A-Za-z]+:[ \\t!-~]*";
const HEADERS = new RegExp(`^${HEADER}(?:\\r\\n${HEADER})*$`);
const LENGTH = /^\d{1,15}$/;

/**
 * Reads the head of an HTTP/1.1 request. It takes less than HTTP allows: what two readers could
 * understand in two ways is refused, and so is whatever our own client never sends, such as chunked
 * bodies and repeated headers.
 */
export function parseHead(text: string): RequestHead {
  const end = text.indexOf("\r\n");
  const requestLine = end === -1 ? text : text.slice(0, end);
  const [, method, target, major, minor] = REQUEST_LINE.exec(requestLine) ?? [];
  if (method === undefined || target === undefined) throw malformed("request line");
  if (major !== "1" || minor !== "1") throw new Refused(505, "Use HTTP/1.1");
  const headers = end === -1 ? new Map<string, string>() : parseHeaders(text.slice(end + 2));
  if (!headers.has("host")) throw new Refused(400, "The header host is missing");
  if (headers.has("expect")) throw new Refused(417, "Send the body at once");
  return { method, target, headers, length: lengthOf(method, headers), keep: keeps(headers) };
}

function parseHeaders(text: string): ReadonlyMap<string, string> {
  const lines = text.split("\r\n");
  if (lines.length > MAX_HEADERS) throw new Refused(431, "Too many headers");
  if (!HEADERS.test(text)) throw malformed("header");
  const headers = new Map<string, string>();
  for (const line of lines) {
    const colon = line.indexOf(":");
    const name = line.slice(0, colon).toLowerCase();
    if (headers.has(name)) throw new Refused(400, `The header ${name} is there twice`);
    headers.set(name, line.slice(colon + 1).trim());
  }
  return headers;
}

function lengthOf(method: string, headers: ReadonlyMap<string, string>): number {
  if (headers.has("transfer-encoding")) throw new Refused(411, "Use Content-Length");
  const length = headers.get("content-length");
  if (length === undefined) {
    if (method === "POST" || method === "PUT") throw new Refused(411, "Use Content-Length");
    return 0;
  }
  if (!LENGTH.test(length)) throw malformed("Content-Length");
  return Number(length);
}

function keeps(headers: ReadonlyMap<string, string>): boolean {
  const options = headers.get("connection")?.toLowerCase().split(",") ?? [];
  return !options.some((option) => option.trim() === "close" || option.trim() === "upgrade");
}

function malformed(what: string): Refused {
  return new Refused(400, `Malformed ${what}`);
}
