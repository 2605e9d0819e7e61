import { Alarm } from "../base/alarm.ts";
import { joinBytes } from "../base/bytes.ts";
import type { ByteStream } from "../base/streams.ts";
import { BODY_TIMEOUT_MS, type DoorAnswer, JSON_HEADERS, Refused, tooSlow } from "./door.ts";

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

/** How much and how long is read of what nobody wants any more. */
const FAREWELL_BYTES = 2 ** 28;
const FAREWELL_MS = 5000;

const NOTHING = new Uint8Array(0);
const decoder = new TextDecoder("latin1");

/**
 * Reads one request after the other from a connection, never more than is asked for, nor for ever.
 * Disposing it leaves no timer behind.
 */
export class RequestReader implements Disposable {
  readonly #stream: ByteStream;
  /** What came and was not asked for yet. */
  #rest: Uint8Array = NOTHING;
  #next: Promise<Uint8Array | null> | undefined;
  #giveUp: () => void = () => {};
  readonly #alarm = new Alarm(() => this.#giveUp());

  /** @param stream The connection. */
  constructor(stream: ByteStream) {
    this.#stream = stream;
  }

  /** Waits for the first bytes of a request. */
  async begin(timeoutMs: number): Promise<boolean> {
    if (this.#rest.length > 0) return true;
    const came = await this.#take(performance.now() + timeoutMs);
    if (came === null || came === LATE) return false;
    this.#rest = came;
    return true;
  }

  /** Reads a head. */
  async readHead(timeoutMs: number): Promise<RequestHead> {
    const deadline = performance.now() + timeoutMs;
    for (let searched = 0;;) {
      const end = endOfHead(this.#rest, searched);
      if (Math.max(end, this.#rest.length * Number(end === -1)) > MAX_HEAD) {
        throw new Refused(431, `The head is above ${MAX_HEAD} bytes`);
      }
      if (end !== -1) {
        const text = decoder.decode(this.#rest.subarray(0, end));
        this.#rest = this.#rest.subarray(end + 4);
        return parseHead(text);
      }
      searched = Math.max(0, this.#rest.length - 3);
      const came = await this.#take(deadline);
      if (came === LATE) throw new Refused(408, "The head came too slowly");
      if (came === null) throw new Error("The connection ended within a request");
      this.#rest = joinBytes(this.#rest, came);
    }
  }

  /** Reads a body. */
  async readBody(length: number): Promise<Uint8Array> {
    if (this.#rest.length >= length) return this.#cut(length);
    const body = new Uint8Array(length);
    const deadline = performance.now() + BODY_TIMEOUT_MS;
    let size = 0;
    while (true) {
      const part = this.#cut(Math.min(length - size, this.#rest.length));
      body.set(part, size);
      size += part.length;
      if (size === length) return body;
      const came = await this.#take(deadline);
      if (came === LATE) throw tooSlow();
      if (came === null) throw new Error("The connection ended within a request");
      this.#rest = came;
    }
  }

  /** Waits for what comes after a request, without taking it. */
  async peek(): Promise<boolean> {
    if (this.#rest.length > 0) return true;
    try {
      return await (this.#next ??= this.#stream.read()) !== null;
    } catch {
      return false;
    }
  }

  /** Reads and drops what was sent before the other side could know that nobody reads it. */
  async discard(): Promise<void> {
    const deadline = performance.now() + FAREWELL_MS;
    for (let size = this.#rest.length; size < FAREWELL_BYTES;) {
      this.#rest = NOTHING;
      const came = await this.#take(deadline);
      if (came === null || came === LATE) return;
      size += came.length;
    }
  }

  [Symbol.dispose](): void {
    this.#alarm[Symbol.dispose]();
  }

  #cut(length: number): Uint8Array {
    const part = this.#rest.subarray(0, length);
    this.#rest = length === this.#rest.length ? NOTHING : this.#rest.subarray(length);
    return part;
  }

  async #take(deadline: number): Promise<Uint8Array | null | typeof LATE> {
    const next = this.#next ??= this.#stream.read();
    const taken = Promise.withResolvers<Uint8Array | null | typeof LATE>();
    this.#giveUp = () => taken.resolve(LATE);
    this.#alarm.set(deadline - performance.now());
    next.then(taken.resolve, taken.reject);
    try {
      const came = await taken.promise;
      if (came !== LATE) this.#next = undefined;
      return came;
    } finally {
      this.#alarm.unset();
    }
  }
}

/** Nothing came in time; what comes later is not lost. */
const LATE = Symbol("late");

/** Where the empty line begins that ends a head, or -1. */
function endOfHead(bytes: Uint8Array, from: number): number {
  for (let at = bytes.indexOf(13, from); at !== -1; at = bytes.indexOf(13, at + 1)) {
    if (bytes[at + 1] === 10 && bytes[at + 2] === 13 && bytes[at + 3] === 10) return at;
  }
  return -1;
}

/** How many bytes of lines wait for whoever does not read. */
const MAX_UNREAD = 1 << 20;

const REASONS: Readonly<Record<number, string>> = {
  200: "OK",
  400: "Bad Request",
  401: "Unauthorized",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  408: "Request Timeout",
  411: "Length Required",
  413: "Content Too Large",
  415: "Unsupported Media Type",
  417: "Expectation Failed",
  421: "Misdirected Request",
  431: "Request Header Fields Too Large",
  500: "Internal Server Error",
  503: "Service Unavailable",
  505: "HTTP Version Not Supported",
};

const ANSWER_HEADERS = Object.entries(JSON_HEADERS).map(([name, value]) => `${name}: ${value}\r\n`)
  .join(
    "",
  );
const encoder = new TextEncoder();

/** Writes the answer to one request: at once, or line by line. */
export class AnswerWriter {
  readonly #stream: ByteStream;
  #lines: Promise<void> | undefined;
  #unread = 0;

  /** @param stream The connection. */
  constructor(stream: ByteStream) {
    this.#stream = stream;
  }

  /** Sends a line that comes before the answer, unless too many are unread. */
  tell(line: string): void {
    const body = encoder.encode(line);
    if (this.#unread + body.length > MAX_UNREAD) return;
    const head = this.#lines === undefined
      ? `${headOf(200, true)}transfer-encoding: chunked\r\n\r\n`
      : "";
    this.#unread += body.length;
    const written = this.#write(`${head}${body.length.toString(16)}\r\n`, body, "\r\n");
    written.then(() => this.#unread -= body.length, () => {}); // the caller is gone, as reading tells
  }

  /** Sends the answer itself. */
  async end({ status }: DoorAnswer, body: Uint8Array, keep: boolean): Promise<void> {
    if (this.#lines === undefined) {
      return await this.#write(
        `${headOf(status, keep)}content-length: ${body.length}\r\n\r\n`,
        body,
        "",
      );
    }
    await this.#write(`${body.length.toString(16)}\r\n`, body, "\r\n0\r\n\r\n");
  }

  #write(before: string, body: Uint8Array, after: string): Promise<void> {
    const bytes = new Uint8Array(before.length + body.length + after.length);
    encoder.encodeInto(before, bytes);
    bytes.set(body, before.length);
    encoder.encodeInto(after, bytes.subarray(before.length + body.length));
    const written = this.#lines === undefined
      ? this.#stream.write(bytes)
      : this.#lines.then(() => this.#stream.write(bytes));
    this.#lines = written;
    return written;
  }
}

function headOf(status: number, keep: boolean): string {
  const connection = keep ? "" : "connection: close\r\n";
  return `HTTP/1.1 ${status} ${REASONS[status] ?? "Error"}\r\n${ANSWER_HEADERS}${connection}`;
}
