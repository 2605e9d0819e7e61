import { Deadline } from "../../async/deadline.ts";
import type { RateLimit } from "../../async/rate_limit.ts";
import { abortable, anySignal } from "../../async/signals.ts";
import { BODY_TIMEOUT_MS, tooLarge, tooSlow } from "../../tool_server/door.ts";

/** The largest file that is taken. */
const MAX_UPLOAD_BYTES = 2 ** 30;
/** What has to come within the time that a whole body has elsewhere. */
const STEP_BYTES = 64 * 1024;
/** Taking a smaller piece costs more than its bytes do. */
const SMALL_BYTES = 4096;

/**
 * Gives the bytes of an upload as they come, but no more small pieces than the client may send: each
 * costs steps that all others wait for.
 */
export async function* uploadedPieces(
  body: ReadableStream<Uint8Array>,
  pace: RateLimit,
): AsyncGenerator<Uint8Array> {
  const reader = body.getReader();
  const next = async (signal: AbortSignal): Promise<Uint8Array | undefined> => {
    try {
      await pace.settled(signal);
      return (await abortable(reader.read(), signal)).value;
    } catch (error) {
      throw signal.aborted ? tooSlow() : error;
    }
  };
  try {
    for (let size = 0;;) {
      using deadline = new Deadline(BODY_TIMEOUT_MS);
      const signal = anySignal(deadline.signal);
      for (const end = size + STEP_BYTES; size < end;) {
        const piece = await next(signal);
        if (piece === undefined) return;
        size += piece.length;
        if (size > MAX_UPLOAD_BYTES) throw tooLarge(MAX_UPLOAD_BYTES);
        if (piece.length < SMALL_BYTES) pace.charge(1);
        yield piece;
      }
    }
  } finally {
    await reader.cancel().catch(() => {}); // it has failed already
  }
}
