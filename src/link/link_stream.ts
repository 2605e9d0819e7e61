import { ByteQueue } from "./byte_queue.ts";
import {
  encodeCredit,
  encodeFrame,
  FrameType,
  HEADER_LENGTH,
  LinkError,
  writeHeader,
} from "./frame.ts";

/** How many bytes of a stream may be on their way in each direction. The launcher agrees. */
export const WINDOW: number = 1 << 18;

/** How much is read from a connection at once. */
const CHUNK = 1 << 16;

/** Up to this many bytes it is cheaper to copy what was read than to get a new buffer. */
const SMALL = 1 << 13;

/** What a stream needs of the link that carries it. */
export interface StreamCarrier {
  /** Sends a frame. */
  send(frame: Uint8Array): void;
  /** Resolves when the link is not congested. */
  uncongested(): Promise<void> | undefined;
  /** Called once, when the stream is over. */
  over(stream: LinkStream): void;
}

/** One connection on this side of the link, and its state on the link. */
export class LinkStream {
  /** Its number on the link. */
  readonly id: number;
  /** Resolves, never rejects, when the stream is over. */
  readonly done: Promise<void>;

  readonly #carrier: StreamCarrier;
  readonly #received = new ByteQueue();
  #connection: Deno.TcpConn | undefined;
  #credit = WINDOW;
  #creditGiven: PromiseWithResolvers<void> | undefined;
  #window = WINDOW;
  #taken = 0;
  #peerEnded = false;
  #over = false;

  /**
   * Leads a connection over a link.
   *
   * @param id The stream's number.
   * @param carrier The link.
   * @param connection The connection, or the promise of one.
   */
  constructor(
    id: number,
    carrier: StreamCarrier,
    connection: Deno.TcpConn | Promise<Deno.TcpConn>,
  ) {
    this.id = id;
    this.#carrier = carrier;
    this.done = this.#run(connection);
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

  /** Ends the stream at once, in both directions, without telling the other side. */
  abandon(): void {
    if (this.#over) return;
    this.#over = true;
    this.#received.discard();
    this.#creditGiven?.resolve();
    close(this.#connection);
    this.#carrier.over(this);
  }

  async #run(connection: Deno.TcpConn | Promise<Deno.TcpConn>): Promise<void> {
    try {
      this.#connection = await connection;
      if (this.#over) return close(this.#connection);
      this.#connection.setNoDelay(true);
      await Promise.all([this.#sendAll(this.#connection), this.#deliverAll(this.#connection)]);
      this.abandon();
    } catch {
      // Whatever happened to the connection, all that the other side can be told is that it is gone.
      if (!this.#over) this.#carrier.send(encodeFrame(FrameType.RST, this.id));
      this.abandon();
    }
  }

  async #sendAll(connection: Deno.TcpConn): Promise<void> {
    let buffer = new Uint8Array(HEADER_LENGTH + CHUNK);
    while (true) {
      await this.#carrier.uncongested();
      while (this.#credit === 0 && !this.#over) {
        this.#creditGiven = Promise.withResolvers();
        await this.#creditGiven.promise;
      }
      if (this.#over) return;
      const room = HEADER_LENGTH + Math.min(CHUNK, this.#credit);
      const length = await connection.read(buffer.subarray(HEADER_LENGTH, room));
      if (this.#over) return;
      if (length === null) return this.#carrier.send(encodeFrame(FrameType.EOF, this.id));
      this.#credit -= length;
      writeHeader(buffer, { type: FrameType.DATA, stream: this.id, length });
      if (length <= SMALL) {
        this.#carrier.send(buffer.slice(0, HEADER_LENGTH + length));
      } else {
        this.#carrier.send(buffer.subarray(0, HEADER_LENGTH + length));
        buffer = new Uint8Array(HEADER_LENGTH + CHUNK);
      }
    }
  }

  async #deliverAll(connection: Deno.TcpConn): Promise<void> {
    while (true) {
      const bytes = await this.#received.take();
      if (this.#over) return;
      if (bytes === null) return await connection.closeWrite();
      for (let at = 0; at < bytes.length;) {
        const written = await connection.write(bytes.subarray(at));
        at += written;
        this.#took(written);
      }
    }
  }

  #took(count: number): void {
    this.#taken += count;
    if (this.#taken < WINDOW / 4 || this.#over) return;
    this.#carrier.send(encodeCredit(this.id, this.#taken));
    this.#window += this.#taken;
    this.#taken = 0;
  }
}

function close(connection: Deno.TcpConn | undefined): void {
  try {
    connection?.close();
  } catch {
    // It was closed by its own failure.
  }
}
