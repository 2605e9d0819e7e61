import type { ByteStream } from "./byte_stream.ts";

/**
 * Passes on what comes in at either of two streams to the other, until both have ended or one is
 * gone. Both are closed then.
 */
export async function joinStreams(one: ByteStream, other: ByteStream): Promise<void> {
  one.closed.then(() => other.close()); // also while nothing is read, as the other does not take it
  other.closed.then(() => one.close());
  try {
    await Promise.all([passOn(one, other), passOn(other, one)]);
  } catch {
    // One is gone; all that the other can be told is the same.
  } finally {
    one.close();
    other.close();
  }
}

async function passOn(from: ByteStream, to: ByteStream): Promise<void> {
  for (let bytes = await from.read(); bytes !== null; bytes = await from.read()) {
    await to.write(bytes);
  }
  await to.end();
}
