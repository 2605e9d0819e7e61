import type { ByteStream } from "./byte_stream.ts";

/** How much is read at once. */
const CHUNK = 1 << 16;
/** Up to this many bytes it is cheaper to copy what was read than to get a new buffer. */
const SMALL = 1 << 13;

/** A TCP connection as a stream of bytes. */
export class TcpStream implements ByteStream {
  readonly closed: Promise<void>;

  readonly #connection: Deno.TcpConn;
  readonly #gone = Promise.withResolvers<void>();
  #buffer: Uint8Array<ArrayBuffer> | undefined;

  /** @param connection The connection, which the stream owns from here. */
  constructor(connection: Deno.TcpConn) {
    this.#connection = connection;
    this.closed = this.#gone.promise;
    connection.setNoDelay(true);
  }

  async read(): Promise<Uint8Array | null> {
    const buffer = this.#buffer ?? new Uint8Array(CHUNK);
    this.#buffer = buffer;
    const length = await this.#connection.read(buffer);
    if (length === null) return null;
    if (length <= SMALL) return buffer.slice(0, length);
    this.#buffer = undefined; // it is the reader's from here
    return buffer.subarray(0, length);
  }

  async write(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length;) at += await this.#connection.write(bytes.subarray(at));
  }

  async end(): Promise<void> {
    await this.#connection.closeWrite();
  }

  close(): void {
    this.#gone.resolve();
    try {
      this.#connection.close();
    } catch {
      // It was closed by its own failure.
    }
  }
}
