import { abortable, settledWithin } from "../async/signals.ts";
import type { JsonObject, RequestContent } from "./jupyter.ts";
import type { Kernel } from "./kernel.ts";

/** How long a {@linkcode briefRequest} may take. */
export interface BriefRequestOptions {
  /** Gives up. */
  readonly signal: AbortSignal;
  /** How long a kernel that is given up may take to turn to other work. */
  readonly graceMs: number;
}

/**
 * Asks an idle kernel something that it should answer at once.
 *
 * To complete `value.` it runs code of the value's class, which may take for ever: one that is given
 * up is interrupted, and the next request waits until that is over.
 */
export async function briefRequest(
  kernel: Kernel,
  content: RequestContent,
  { signal, graceMs }: BriefRequestOptions,
): Promise<JsonObject> {
  const request = kernel.request(content);
  try {
    return await abortable(request.done, signal);
  } finally {
    if (!request.isIdle && !kernel.ended.aborted) {
      const settled = kernel.interrupt().then(() => request.idle).then(() => kernel.settled());
      await settledWithin(settled, graceMs);
    }
  }
}
