/**
 * The frames of the link: `type u8, stream u32, length u32, payload`, big-endian.
 *
 * @module
 */

import { joinBytes } from "../base/bytes.ts";

/** The types of frames. The launcher uses the same numbers. */
export const FrameType = {
  /** Opens a stream. From the host, the payload may name a program to start for it. */
  OPEN: 0,
  /** Carries bytes of a stream. */
  DATA: 1,
  /** The sender will send no more bytes on this stream. */
  EOF: 2,
  /** The stream is gone, in both directions. */
  RST: 3,
  /** Credit: the sender has consumed this many bytes (u32), so as many more may be sent. */
  WIN: 4,
  /** The launcher is up (JSON). */
  READY: 5,
  /** The program for the launcher to start (JSON). */
  START: 6,
  /** The launcher's program has ended (JSON). */
  EXIT: 7,
  // Between the host and the supervisor of a durable session. The supervisor sends 8 and 9 to the launcher.
  /** The state of the session (JSON), the supervisor's first frame. */
  GREETING: 10,
  /** The connecting host and its purpose (JSON): its first frame. */
  HELLO: 11,
  /** The host is attached (JSON). */
  WELCOME: 12,
  /** The host is not attached, or no longer (JSON). */
  REFUSED: 13,
  /** A heartbeat. */
  BEAT: 14,
  /** Ends the session. */
  END: 15,
  /** State for the next host (JSON). */
  KEEP: 16,
  /** Output on stderr. */
  STDERR: 17,
  // 18 is used only between two supervisors.
  /** News for people about the connection to a launcher elsewhere (JSON). */
  NOTE: 19,
} as const;

/** One of the numbers of {@linkcode FrameType}. */
export type FrameType = (typeof FrameType)[keyof typeof FrameType];

/** A frame of the link. */
export interface Frame {
  readonly type: FrameType;
  /** The stream that it belongs to, or 0. */
  readonly stream: number;
  /** The bytes after its header. */
  readonly payload: Uint8Array;
}

/** The link carried something invalid and can no longer be used. */
export class LinkError extends Error {
  /** The name of the class. */
  override readonly name: string = "LinkError";
}

/** The size of a frame's header. */
const HEADER_LENGTH = 9;

/** The longest payload that is accepted. */
export const MAX_PAYLOAD: number = 1 << 16;

/**
 * A `WELCOME` carries stderr and the state for the next host, which escapes can double in length.
 */
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
 * Splits incoming bytes into frames. It keeps at most one frame, and copies only payloads that are
 * split across chunks.
 */
export class FrameDecoder {
  #rest = NOTHING;

  /** How many bytes of an incomplete frame are kept. */
  get pending(): number {
    return this.#rest.length;
  }

  /** Adds bytes and returns the frames that they complete. */
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
