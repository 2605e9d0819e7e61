import { abortable } from "./signals.ts";

/**
 * A growing buffer of bytes.
 *
 * It takes at most twice the memory of its bytes, however small the pieces are. Keeping the pieces
 * themselves may cost much more: `fetch()` and `Deno.serve()` deliver each in a buffer of 64 KiB.
 */
export class ByteBuffer {
  #buffer = new Uint8Array(0);
  #length = 0;

  /** The number of bytes. */
  get length(): number {
    return this.#length;
  }

  /** Adds a copy of bytes. */
  add(bytes: Uint8Array): void {
    const length = this.#length + bytes.length;
    if (length > this.#buffer.length) {
      const larger = new Uint8Array(Math.max(length, 2 * this.#buffer.length, 1024));
      larger.set(this.#buffer.subarray(0, this.#length));
      this.#buffer = larger;
    }
    this.#buffer.set(bytes, this.#length);
    this.#length = length;
  }

  /** Returns all bytes and empties the buffer. */
  take(): Uint8Array<ArrayBuffer> {
    const bytes = this.#buffer.subarray(0, this.#length);
    this.#buffer = new Uint8Array(0);
    this.#length = 0;
    return bytes;
  }
}

/** Splits bytes into lines, in linear time. Lines stay bytes: a torn one need not be valid text. */
export class LineSplitter {
  readonly #begun = new ByteBuffer();
  readonly #maxBytes: number;
  readonly #onTooLong: () => void;
  #isTooLong = false;

  /** `onTooLong` is called for each piece of a line beyond the limit, which is dropped. */
  constructor(maxBytes: number, onTooLong: () => void = () => {}) {
    this.#maxBytes = maxBytes;
    this.#onTooLong = onTooLong;
  }

  /** Adds bytes and yields the lines that they complete. They are added as the generator is read. */
  *add(bytes: Uint8Array): Generator<Uint8Array, void, undefined> {
    let start = 0;
    for (let end = bytes.indexOf(10); end !== -1; end = bytes.indexOf(10, start)) {
      this.#begin(bytes.subarray(start, end));
      start = end + 1;
      yield this.takeRest();
    }
    this.#begin(bytes.subarray(start));
  }

  /** Takes the bytes after the last line feed. */
  takeRest(): Uint8Array {
    this.#isTooLong = false;
    return this.#begun.take();
  }

  #begin(part: Uint8Array): void {
    this.#isTooLong ||= this.#begun.length + part.length > this.#maxBytes;
    if (this.#isTooLong) this.#onTooLong();
    else this.#begun.add(part);
  }
}

/** Concatenates pieces. */
export function joinBytes(...pieces: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(pieces.reduce((length, piece) => length + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}

/** Joins small pieces into blocks, for consumers to which each piece is expensive. */
export async function* inBlocks(
  pieces: AsyncIterable<Uint8Array>,
  size: number,
): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  const block = new ByteBuffer();
  for await (const piece of pieces) {
    block.add(piece);
    if (block.length >= size) yield block.take();
  }
  if (block.length > 0) yield block.take();
}

/** Reads until a buffer is full or the source ends, and returns the part that was filled. */
export async function fill(
  buffer: Uint8Array<ArrayBuffer>,
  source: { read(part: Uint8Array): Promise<number | null> },
): Promise<Uint8Array<ArrayBuffer>> {
  let size = 0;
  while (size < buffer.length) {
    const count = await source.read(buffer.subarray(size));
    if (count === null) break;
    size += count;
  }
  return buffer.subarray(0, size);
}

/** Options of {@linkcode readWhole}. */
interface ReadWholeOptions {
  /** The longest body that is accepted. */
  readonly maxBytes: number;
  /** Creates the error for a longer body. */
  readonly tooLong: () => Error;
  /** Ends the reading, even if nothing more arrives. */
  readonly signal?: AbortSignal;
}

/** Reads a body to its end, or cancels it. */
export async function readWhole(
  body: ReadableStream<Uint8Array> | null,
  options: ReadWholeOptions,
): Promise<Uint8Array<ArrayBuffer>> {
  const { maxBytes, tooLong, signal } = options;
  const whole = new ByteBuffer();
  if (body === null) return whole.take();
  const reader = body.getReader();
  const next = () => abortable(reader.read(), signal);
  try {
    for (let read = await next(); !read.done; read = await next()) {
      if (whole.length + read.value.length > maxBytes) throw tooLong();
      whole.add(read.value);
    }
    return whole.take();
  } finally {
    void reader.cancel().catch(() => {}); // it has already failed
  }
}
