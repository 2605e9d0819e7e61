import { ByteBuffer } from "../base/bytes.ts";
import type { ByteStream } from "../base/streams.ts";
import { encodeCredit, encodeFrame, FrameType, LinkError } from "./frame.ts";

/** How many bytes of a stream may be in flight in each direction, as in the launcher. */
const WINDOW: number = 1 << 18;

/** The most bytes in one frame. */
const CHUNK = 1 << 16;

/** The parts of its link that a stream needs. */
export interface StreamOwner {
  /** Sends a frame. */
  send(frame: Uint8Array): void;
  /** Resolves once the link is no longer congested; `undefined` if it is not. */
  uncongested(): Promise<void> | undefined;
  /** Called once, when the stream is closed. */
  over(stream: LinkStream): void;
}

/** This side of a stream on the link. */
export class LinkStream implements ByteStream {
  /** Its number on the link. */
  readonly id: number;
  readonly closed: Promise<void>;

  readonly #owner: StreamOwner;
  readonly #received = new ByteQueue();
  readonly #gone = Promise.withResolvers<void>();
  #credit = WINDOW;
  #creditGiven: PromiseWithResolvers<void> | undefined;
  #window = WINDOW;
  #taken = 0;
  #ended = false;
  #peerEnded = false;
  #over = false;

  constructor(id: number, owner: StreamOwner) {
    this.id = id;
    this.#owner = owner;
    this.closed = this.#gone.promise;
  }

  async read(): Promise<Uint8Array | null> {
    const bytes = await this.#received.take();
    if (this.#over) throw gone();
    if (bytes !== null) this.#took(bytes.length);
    return bytes;
  }

  async write(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length;) {
      const congested = this.#owner.uncongested();
      if (congested !== undefined) await congested;
      while (this.#credit === 0 && !this.#over) {
        this.#creditGiven = Promise.withResolvers();
        await this.#creditGiven.promise;
      }
      if (this.#over) throw gone();
      const part = bytes.subarray(at, at + Math.min(CHUNK, this.#credit));
      this.#credit -= part.length;
      at += part.length;
      this.#owner.send(encodeFrame(FrameType.DATA, this.id, part));
    }
  }

  end(): Promise<void> {
    if (this.#over) return Promise.reject(gone());
    if (!this.#ended) this.#owner.send(encodeFrame(FrameType.EOF, this.id));
    this.#ended = true;
    return Promise.resolve();
  }

  close(): void {
    const isComplete = this.#ended && this.#peerEnded;
    if (!this.#over && !isComplete) this.#owner.send(encodeFrame(FrameType.RST, this.id));
    this.abandon();
  }

  /** Receives bytes from the other side. */
  receive(bytes: Uint8Array): void {
    this.#window -= bytes.length;
    if (this.#window < 0) {
      throw new LinkError(
        `The link carried more data for stream ${this.id} than it had credit for`,
      );
    }
    if (this.#peerEnded) {
      throw new LinkError(`The link carried data for stream ${this.id} after its end`);
    }
    this.#received.push(bytes);
  }

  /** Receives the end of the other side's bytes. */
  receiveEnd(): void {
    this.#peerEnded = true;
    this.#received.end();
  }

  /** Receives credit for sending more. */
  receiveCredit(count: number): void {
    this.#credit += count;
    if (this.#credit > WINDOW) {
      throw new LinkError(`The link gave too much credit for stream ${this.id}`);
    }
    this.#creditGiven?.resolve();
    this.#creditGiven = undefined;
  }

  /** Closes the stream immediately in both directions without notifying the other side. */
  abandon(): void {
    if (this.#over) return;
    this.#over = true;
    this.#received.discard();
    this.#creditGiven?.resolve();
    this.#gone.resolve();
    this.#owner.over(this);
  }

  #took(count: number): void {
    this.#taken += count;
    if (this.#taken < WINDOW / 4) return;
    this.#owner.send(encodeCredit(this.id, this.#taken));
    this.#window += this.#taken;
    this.#taken = 0;
  }
}

function gone(): Error {
  return new Error("The stream is closed");
}

/**
 * A queue of bytes whose one consumer takes everything that is pending.
 *
 * Waiting bytes are copied into one buffer, so that many small pieces take no extra memory.
 */
class ByteQueue {
  readonly #waiting = new ByteBuffer();
  #ended = false;
  #taker: PromiseWithResolvers<Uint8Array | null> | undefined;

  /** Adds bytes, which must not change afterwards. Bytes after the end are dropped. */
  push(bytes: Uint8Array): void {
    if (this.#ended || bytes.length === 0) return;
    if (this.#taker !== undefined) return this.#give(bytes);
    this.#waiting.add(bytes);
  }

  /** Ends the queue; pending bytes can still be taken. */
  end(): void {
    this.#ended = true;
    this.#give(null);
  }

  /** Ends the queue and drops pending bytes. */
  discard(): void {
    this.#waiting.take();
    this.end();
  }

  /** Takes all pending bytes, or waits for some. Only one call may be waiting. */
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
