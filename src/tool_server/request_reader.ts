import { Alarm } from "../async/alarm.ts";
import { joinBytes } from "../net/byte_buffer.ts";
import type { ByteStream } from "../net/byte_stream.ts";
import { BODY_TIMEOUT_MS, Refused, tooSlow } from "./door.ts";
import { MAX_HEAD, parseHead, type RequestHead } from "./request_head.ts";

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
