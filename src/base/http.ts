import { isGranted } from "./permission.ts";
import { LinkedSignal } from "./signals.ts";

/**
 * Creates a client that bypasses `HTTP_PROXY` for a host: Deno sends even requests to loopback
 * addresses, and with them the token, through that proxy. Deno reads `NO_PROXY` when it creates a
 * client. Without permission for that variable, the proxy is used unless the user sets it.
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

/** A body that fails once the signal aborts: Deno may collect the signal that `fetch()` derives from it. */
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
