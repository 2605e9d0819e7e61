import { ByteBuffer } from "../net/byte_buffer.ts";

/**
 * Bytes between a producer that pushes and one consumer that takes all there is at once.
 *
 * Bytes that have to wait are copied together, so that many small pieces take no more memory than
 * their bytes.
 */
export class ByteQueue {
  readonly #waiting = new ByteBuffer();
  #ended = false;
  #taker: PromiseWithResolvers<Uint8Array | null> | undefined;

  /** How many bytes wait to be taken. */
  get length(): number {
    return this.#waiting.length;
  }

  /** Adds bytes, which must not change any more. After the end they are dropped. */
  push(bytes: Uint8Array): void {
    if (this.#ended || bytes.length === 0) return;
    if (this.#taker !== undefined) return this.#give(bytes);
    this.#waiting.add(bytes);
  }

  /** Ends the queue; what waits can still be taken. */
  end(): void {
    this.#ended = true;
    this.#give(null);
  }

  /** Ends the queue and drops what waits. */
  discard(): void {
    this.#waiting.take();
    this.end();
  }

  /** Takes all bytes that wait, or waits for some. Only one call may be waiting. */
  take(): Promise<Uint8Array | null> {
    if (this.#waiting.length > 0) return Promise.resolve(this.#waiting.take());
    if (this.#ended) return Promise.resolve(null);
    this.#taker = Promise.withResolvers();
    return this.#taker.promise;
  }

  #give(bytes: Uint8Array | null): void {
    const taker = this.#taker;
    this.#taker = undefined;
    taker?.resolve(bytes);
  }
}
