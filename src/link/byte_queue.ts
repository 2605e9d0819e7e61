/**
 * Bytes between a producer that pushes and one consumer that takes all there is at once.
 *
 * Bytes that have to wait are copied together, so that many small pieces take no more memory than
 * their bytes.
 */
export class ByteQueue {
  #buffer = new Uint8Array(0);
  #length = 0;
  #ended = false;
  #taker: PromiseWithResolvers<Uint8Array | null> | undefined;

  /** How many bytes wait to be taken. */
  get length(): number {
    return this.#length;
  }

  /** Adds bytes, which must not change any more. After the end they are dropped. */
  push(bytes: Uint8Array): void {
    if (this.#ended || bytes.length === 0) return;
    if (this.#taker !== undefined) return this.#give(bytes);
    const length = this.#length + bytes.length;
    if (length > this.#buffer.length) {
      const larger = new Uint8Array(Math.max(length, 2 * this.#buffer.length, 1024));
      larger.set(this.#buffer.subarray(0, this.#length));
      this.#buffer = larger;
    }
    this.#buffer.set(bytes, this.#length);
    this.#length = length;
  }

  /** Ends the queue; what waits can still be taken. */
  end(): void {
    this.#ended = true;
    this.#give(null);
  }

  /** Ends the queue and drops what waits. */
  discard(): void {
    this.#buffer = new Uint8Array(0);
    this.#length = 0;
    this.end();
  }

  /**
   * Takes all bytes that wait, or waits for some. Only one call may be waiting.
   *
   * @returns The bytes, or `null` at the end.
   */
  take(): Promise<Uint8Array | null> {
    if (this.#length > 0) {
      const bytes = this.#buffer.subarray(0, this.#length);
      this.#buffer = new Uint8Array(0);
      this.#length = 0;
      return Promise.resolve(bytes);
    }
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
