import { LinkedSignal } from "../async/linked_signal.ts";

/**
 * The body of a response, for as long as the signal of its request lets it be read. `fetch()` should
 * see to that itself, but the signal that it makes of the given one can be collected as garbage: Deno
 * keeps only those that have listeners.
 */
export function bodyOf(
  response: Response,
  signal: AbortSignal | null | undefined,
): ReadableStream<Uint8Array<ArrayBuffer>> | null {
  if (response.body === null || !signal) return response.body;
  const { readable, writable } = new TransformStream();
  const link = new LinkedSignal(signal);
  response.body.pipeTo(writable, { signal: link.signal })
    .catch(() => {}) // whoever reads gets the error
    .then(() => link[Symbol.dispose]());
  return readable;
}
