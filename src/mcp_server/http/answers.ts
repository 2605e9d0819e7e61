/** A response for a request that never reaches an MCP server. */
export function rpcError(
  status: number,
  code: number,
  message: string,
  headers: Readonly<Record<string, string>> = {},
): Response {
  const body = { jsonrpc: "2.0", error: { code, message }, id: null };
  return Response.json(body, { status, headers: { ...headers, "cache-control": "no-store" } });
}

/**
 * Disposes of a resource when a response has ended in any way, or cannot be created. Deno also
 * aborts a request's signal after complete responses: `onGone` is called if the client has
 * disconnected.
 */
export async function usedUntilSent(
  use: Disposable,
  respond: () => Promise<Response>,
  onGone?: () => void,
): Promise<Response> {
  try {
    const response = await respond();
    if (response.body === null) {
      use[Symbol.dispose]();
      return response;
    }
    const body = response.body.pipeThrough(
      new TransformStream<Uint8Array, Uint8Array>({
        flush: () => use[Symbol.dispose](),
        cancel: () => {
          use[Symbol.dispose]();
          onGone?.();
        },
      }),
    );
    return new Response(body, response);
  } catch (error) {
    use[Symbol.dispose]();
    throw error;
  }
}

/** How much of a response a client may leave unread, besides one message. */
const MAX_UNREAD = 16 * 2 ** 20;

/** Ends a response if too much of it is unread: the SDK buffers any amount for its client. */
export function withUnreadLimit(response: Response, onExceeded: () => void): Response {
  const reader = response.body?.getReader();
  if (reader === undefined) return response;
  const rest = new ReadableStream<Uint8Array<ArrayBuffer>>({
    async start(controller) {
      for (let read = await reader.read(); !read.done; read = await reader.read()) {
        if ((controller.desiredSize ?? 0) <= 0) {
          onExceeded();
          const error = new Error(`More than ${MAX_UNREAD} bytes of the response are unread`);
          await reader.cancel(error);
          throw error;
        }
        controller.enqueue(read.value);
      }
      controller.close();
    },
    cancel: (reason) => reader.cancel(reason),
  }, new ByteLengthQueuingStrategy({ highWaterMark: MAX_UNREAD }));
  return new Response(rest, response);
}
