import { RateLimit } from "../base/rate_limit.ts";
import type { FetchLike } from "./sdk.ts";

/** A server may end its streams and say how soon they are wanted back: `retry: 0` would have no end. */
const STREAMS_PER_SECOND = 2;
const STREAMS_AT_ONCE = 60;
/** The SDK forgets some of its timers, and this process would wait for them. */
const LONGEST_RETRY_MS = 60_000;

/** Bounds how often streams of events are opened. */
export function pacedStreams(fetch: FetchLike): FetchLike {
  const limit = new RateLimit(STREAMS_PER_SECOND, STREAMS_AT_ONCE);
  return async (url, init) => {
    if ((init?.method ?? "GET") === "GET") {
      limit.charge(1);
      await limit.settled(init?.signal ?? undefined);
    }
    return await fetch(url, init);
  };
}

/** Waits before the SDK opens a stream again: no longer than is reasonable, whatever the server wants. */
export function scheduleRetry(retry: () => void, delayMs: number): () => void {
  const timer = setTimeout(retry, Math.min(delayMs, LONGEST_RETRY_MS));
  return () => clearTimeout(timer);
}
