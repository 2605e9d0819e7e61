/** Bytes in both directions, as of a connection. What comes in waits until it is read. */
export interface ByteStream {
  /** Resolves, never rejects, when the stream is known to be gone, as after {@linkcode close}. */
  readonly closed: Promise<void>;
  /**
   * Waits for what comes next. Only one call may be waiting.
   *
   * @returns The bytes, or `null` where the other side has said that no more come.
   * @throws {Error} The stream is gone.
   */
  read(): Promise<Uint8Array | null>;
  /**
   * Sends bytes. Only one call may be under way.
   *
   * @param bytes What is sent. It does not change until the promise resolves.
   * @throws {Error} The stream is gone.
   */
  write(bytes: Uint8Array): Promise<void>;
  /**
   * Says that no more will be sent. What comes in can still be read.
   *
   * @throws {Error} The stream is gone.
   */
  end(): Promise<void>;
  /** Ends the stream at once, in both directions, unless both sides have said that no more comes. */
  close(): void;
}

/** Reads a stream to the end of what comes in. */
export async function* bytesOf(stream: ByteStream): AsyncGenerator<Uint8Array> {
  for (let bytes = await stream.read(); bytes !== null; bytes = await stream.read()) yield bytes;
}
