import type { ByteStream } from "../net/byte_stream.ts";
import { type DoorAnswer, JSON_HEADERS } from "./door.ts";

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

const HEADERS = Object.entries(JSON_HEADERS).map(([name, value]) => `${name}: ${value}\r\n`).join(
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
  return `HTTP/1.1 ${status} ${REASONS[status] ?? "Error"}\r\n${HEADERS}${connection}`;
}
