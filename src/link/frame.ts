/**
 * The frames of the link: `type u8, stream u32, length u32, payload`, big-endian.
 *
 * @module
 */

import { joinBytes } from "../base/bytes.ts";

/** What a frame says. The launcher has the same numbers. */
export const FrameType = {
  /** A stream begins; only from the host, its payload may name a program that is started for it. */
  OPEN: 0,
  /** Bytes of a stream. */
  DATA: 1,
  /** The sender will send no more bytes of this stream. */
  EOF: 2,
  /** The stream is gone, in both directions. */
  RST: 3,
  /** The sender has taken so many bytes (u32); as many more may be sent. */
  WIN: 4,
  /** The launcher is up (JSON). */
  READY: 5,
  /** What the launcher shall start (JSON). */
  START: 6,
  /** What the launcher started has ended (JSON). */
  EXIT: 7,
  // Between the host and the supervisor of a durable session; 8 and 9 are the supervisor's to the launcher.
  /** Where the session stands (JSON), the first words of the supervisor. */
  GREETING: 10,
  /** Who wants what (JSON), the first words of the host. */
  HELLO: 11,
  /** The host is attached (JSON). */
  WELCOME: 12,
  /** It is not, or not any more (JSON). */
  REFUSED: 13,
  /** A sign of life. */
  BEAT: 14,
  /** The session shall end. */
  END: 15,
  /** What the next host has to know (JSON). */
  KEEP: 16,
  /** What was written to stderr. */
  STDERR: 17,
} as const;

/** One of the numbers of {@linkcode FrameType}. */
export type FrameType = (typeof FrameType)[keyof typeof FrameType];

/** A frame of the link. */
export interface Frame {
  /** What it says. */
  readonly type: FrameType;
  /** The stream that it belongs to; 0 for frames that belong to none. */
  readonly stream: number;
  /** The bytes after its header. */
  readonly payload: Uint8Array;
}

/** The link carried what it must not carry; it cannot be used any more. */
export class LinkError extends Error {
  /** The name of the class. */
  override readonly name: string = "LinkError";
}

/** How many bytes come before a frame's payload. */
const HEADER_LENGTH = 9;

/** The longest payload that is accepted. */
export const MAX_PAYLOAD: number = 1 << 16;

/** What a host left for the next one, twice as long where all of it is escaped, and the last of stderr. */
const MAX_WELCOME = 1 << 19;

const NOTHING = new Uint8Array(0);

/** The exact payload lengths of the frames that have one. */
const LENGTHS: Readonly<Record<number, number>> = {
  [FrameType.OPEN]: 0,
  [FrameType.EOF]: 0,
  [FrameType.RST]: 0,
  [FrameType.WIN]: 4,
  [FrameType.BEAT]: 0,
  [FrameType.END]: 0,
};

/** Encodes a frame. */
export function encodeFrame(
  type: FrameType,
  stream: number,
  payload: Uint8Array = NOTHING,
): Uint8Array {
  const bytes = new Uint8Array(HEADER_LENGTH + payload.length);
  const view = new DataView(bytes.buffer);
  view.setUint8(0, type);
  view.setUint32(1, stream);
  view.setUint32(5, payload.length);
  bytes.set(payload, HEADER_LENGTH);
  return bytes;
}

/** Encodes a `WIN` frame. */
export function encodeCredit(stream: number, count: number): Uint8Array {
  const payload = new Uint8Array(4);
  new DataView(payload.buffer).setUint32(0, count);
  return encodeFrame(FrameType.WIN, stream, payload);
}

/** Reads the number in a `WIN` frame. */
export function creditOf(frame: Frame): number {
  return new DataView(frame.payload.buffer, frame.payload.byteOffset, 4).getUint32(0);
}

/**
 * Cuts a sequence of bytes into frames. It never keeps more than one frame, and it copies only
 * payloads that were split between two chunks.
 */
export class FrameDecoder {
  #rest = NOTHING;

  /** How many bytes of a frame that is not complete are kept. */
  get pending(): number {
    return this.#rest.length;
  }

  /** Takes the next bytes. */
  *push(chunk: Uint8Array): Generator<Frame, void, undefined> {
    const bytes = this.#rest.length === 0 ? chunk : joinBytes(this.#rest, chunk);
    this.#rest = NOTHING;
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    let at = 0;
    while (bytes.length - at >= HEADER_LENGTH) {
      const type = frameType(view.getUint8(at));
      const stream = view.getUint32(at + 1);
      const length = view.getUint32(at + 5);
      checkLength(type, length);
      const end = at + HEADER_LENGTH + length;
      if (end > bytes.length) break;
      yield { type, stream, payload: bytes.subarray(at + HEADER_LENGTH, end) };
      at = end;
    }
    this.#rest = at === bytes.length ? NOTHING : bytes.slice(at);
  }
}

function frameType(number: number): FrameType {
  for (const type of Object.values(FrameType)) {
    if (type === number) return type;
  }
  throw new LinkError(`The link carried a frame of unknown type ${number}`);
}

function checkLength(type: FrameType, length: number): void {
  const expected = LENGTHS[type];
  const longest = type === FrameType.WELCOME ? MAX_WELCOME : MAX_PAYLOAD;
  if (length > longest || (expected !== undefined && length !== expected)) {
    throw new LinkError(`The link carried a frame of type ${type} with ${length} bytes`);
  }
}
