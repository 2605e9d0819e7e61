import { abortable } from "./signals.ts";

/**
 * Waits for a while.
 *
 * @param ms How long; not at all for 0 and less.
 * @param signal Gives up.
 * @throws {unknown} The signal's reason when it aborts first.
 */
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
