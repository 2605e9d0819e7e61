import { ByteBuffer } from "../base/bytes.ts";
import type { ByteStream } from "../base/streams.ts";
import { encodeCredit, encodeFrame, FrameType, LinkError } from "./frame.ts";

/** How many bytes of a stream may be on their way in each direction. The launcher agrees. */
const WINDOW: number = 1 << 18;

/** How much goes into one frame. */
const CHUNK = 1 << 16;

/** What a stream needs of the link that carries it. */
export interface StreamCarrier {
  /** Sends a frame. */
  send(frame: Uint8Array): void;
  /** Resolves when the link is not congested. */
  uncongested(): Promise<void> | undefined;
  /** Called once, when the stream is over. */
  over(stream: LinkStream): void;
}

/** One stream on the link, as this side sees it. */
export class LinkStream implements ByteStream {
  /** Its number on the link. */
  readonly id: number;
  readonly closed: Promise<void>;

  readonly #carrier: StreamCarrier;
  readonly #received = new ByteQueue();
  readonly #gone = Promise.withResolvers<void>();
  #credit = WINDOW;
  #creditGiven: PromiseWithResolvers<void> | undefined;
  #window = WINDOW;
  #taken = 0;
  #ended = false;
  #peerEnded = false;
  #over = false;

  constructor(id: number, carrier: StreamCarrier) {
    this.id = id;
    this.#carrier = carrier;
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
      const congested = this.#carrier.uncongested();
      if (congested !== undefined) await congested;
      while (this.#credit === 0 && !this.#over) {
        this.#creditGiven = Promise.withResolvers();
        await this.#creditGiven.promise;
      }
      if (this.#over) throw gone();
      const part = bytes.subarray(at, at + Math.min(CHUNK, this.#credit));
      this.#credit -= part.length;
      at += part.length;
      this.#carrier.send(encodeFrame(FrameType.DATA, this.id, part));
    }
  }

  end(): Promise<void> {
    if (this.#over) return Promise.reject(gone());
    if (!this.#ended) this.#carrier.send(encodeFrame(FrameType.EOF, this.id));
    this.#ended = true;
    return Promise.resolve();
  }

  close(): void {
    const isComplete = this.#ended && this.#peerEnded;
    if (!this.#over && !isComplete) this.#carrier.send(encodeFrame(FrameType.RST, this.id));
    this.abandon();
  }

  /** Takes bytes that the other side sent. */
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

  /** Takes the end of what the other side sends. */
  receiveEnd(): void {
    this.#peerEnded = true;
    this.#received.end();
  }

  /** Takes credit for sending more. */
  receiveCredit(count: number): void {
    this.#credit += count;
    if (this.#credit > WINDOW) {
      throw new LinkError(`The link gave too much credit for stream ${this.id}`);
    }
    this.#creditGiven?.resolve();
    this.#creditGiven = undefined;
  }

  /** Closes the stream immediately in both directions without telling the other side. */
  abandon(): void {
    if (this.#over) return;
    this.#over = true;
    this.#received.discard();
    this.#creditGiven?.resolve();
    this.#gone.resolve();
    this.#carrier.over(this);
  }

  #took(count: number): void {
    this.#taken += count;
    if (this.#taken < WINDOW / 4) return;
    this.#carrier.send(encodeCredit(this.id, this.#taken));
    this.#window += this.#taken;
    this.#taken = 0;
  }
}

function gone(): Error {
  return new Error("The stream is closed");
}

/**
 * Bytes between a producer that pushes and one consumer that takes everything that is pending.
 *
 * Bytes that have to wait are copied together, so that many small pieces take no more memory than
 * their bytes.
 */
class ByteQueue {
  readonly #waiting = new ByteBuffer();
  #ended = false;
  #taker: PromiseWithResolvers<Uint8Array | null> | undefined;

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
