import { abortable } from "./signals.ts";

/** Waits for a while. */
export async function pause(ms: number, signal?: AbortSignal): Promise<void> {
  signal?.throwIfAborted();
  if (ms <= 0) return;
  const over = Promise.withResolvers<void>();
  const timer = setTimeout(over.resolve, ms);
  try {
    await (signal === undefined ? over.promise : abortable(over.promise, signal));
  } finally {
    clearTimeout(timer);
  }
}
