/** A bidirectional byte stream, such as a connection. Incoming bytes wait until they are read. */
export interface ByteStream {
  /** Resolves when the stream is known to be gone, as after {@linkcode close}. Never rejects. */
  readonly closed: Promise<void>;
  /**
   * Waits for the next bytes. Only one call may be waiting.
   *
   * @returns The bytes, or `null` if the other side has finished sending.
   * @throws {Error} The stream is gone.
   */
  read(): Promise<Uint8Array | null>;
  /**
   * Sends bytes. Only one call may be under way.
   *
   * @param bytes The bytes. They must not change until the promise resolves.
   * @throws {Error} The stream is gone.
   */
  write(bytes: Uint8Array): Promise<void>;
  /**
   * Finishes sending. Incoming data can still be read.
   *
   * @throws {Error} The stream is gone.
   */
  end(): Promise<void>;
  /** Closes the stream immediately in both directions, unless both sides have finished sending. */
  close(): void;
}

/** Iterates over the incoming bytes of a stream. */
export async function* bytesOf(stream: ByteStream): AsyncGenerator<Uint8Array> {
  for (let bytes = await stream.read(); bytes !== null; bytes = await stream.read()) yield bytes;
}

/** Forwards the bytes of each stream to the other until both have ended or one is gone. */
export async function joinStreams(one: ByteStream, other: ByteStream): Promise<void> {
  one.closed.then(() => other.close()); // also while the other does not read
  other.closed.then(() => one.close());
  try {
    await Promise.all([passOn(one, other), passOn(other, one)]);
  } catch {
    // One is gone: close the other.
  } finally {
    one.close();
    other.close();
  }
}

async function passOn(from: ByteStream, to: ByteStream): Promise<void> {
  for (let bytes = await from.read(); bytes !== null; bytes = await from.read()) {
    await to.write(bytes);
  }
  await to.end();
}

/** The size of one read while much arrives. */
export const CHUNK = 1 << 16;
/** The size of the others: very many connections may wait. Copying less is cheaper than a new buffer. */
export const SMALL = 1 << 13;

/** A TCP or Unix connection as a byte stream, which owns it. */
export class SocketStream implements ByteStream {
  readonly closed: Promise<void>;

  readonly #connection: Deno.TcpConn | Deno.UnixConn;
  readonly #gone = Promise.withResolvers<void>();
  #buffer: Uint8Array<ArrayBuffer> | undefined;

  constructor(connection: Deno.TcpConn | Deno.UnixConn) {
    this.#connection = connection;
    this.closed = this.#gone.promise;
    if ("setNoDelay" in connection) connection.setNoDelay(true);
  }

  async read(): Promise<Uint8Array | null> {
    const buffer = this.#buffer ?? new Uint8Array(SMALL);
    this.#buffer = buffer;
    const length = await this.#connection.read(buffer);
    if (length === null) return null;
    if (length < SMALL) {
      if (buffer.length > SMALL) this.#buffer = undefined;
      return buffer.slice(0, length);
    }
    this.#buffer = new Uint8Array(CHUNK); // the reader owns the other now
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
      // It has already failed and closed.
    }
  }
}
