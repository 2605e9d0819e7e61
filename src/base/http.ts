import { isGranted } from "./permission.ts";
import { LinkedSignal } from "./signals.ts";

/**
 * A client that connects to a host directly also where `HTTP_PROXY` is set: Deno sends even loopback
 * addresses, and so the token, through that proxy. `NO_PROXY` is read when a client is created. Who
 * did not grant access to that variable is not asked for it, and may set it.
 */
export function directClient(hostname: string): Deno.HttpClient {
  if (!isGranted({ name: "env", variable: "NO_PROXY" })) return Deno.createHttpClient({});
  const before = Deno.env.get("NO_PROXY");
  Deno.env.set("NO_PROXY", hostname);
  try {
    return Deno.createHttpClient({});
  } finally {
    if (before === undefined) Deno.env.delete("NO_PROXY");
    else Deno.env.set("NO_PROXY", before);
  }
}

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
    .catch(() => {}) // the reader gets the error
    .then(() => link[Symbol.dispose]());
  return readable;
}
