import { z } from "zod";
import { settledWithin } from "../../base/signals.ts";
import { parsedJson } from "../../json/plain.ts";

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

/** The actions of {@linkcode untilSent} at the end of a response. */
interface UntilSentOptions {
  /** Disposed of when the response ends, however it ends. */
  readonly use: Disposable;
  /** Called if the client disconnects before it has received everything. */
  readonly onGone?: (() => void) | undefined;
}

/** Follows a response to its end: Deno aborts a request's signal also after complete responses. */
export function untilSent(response: Response, options: UntilSentOptions): Response {
  const { use, onGone } = options;
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
}

/** The same for a response that is still to be made; if that fails, the resource is disposed of, too. */
export async function usedUntilSent(
  use: Disposable,
  respond: () => Promise<Response>,
  onGone?: () => void,
): Promise<Response> {
  try {
    return untilSent(await respond(), { use, onGone });
  } catch (error) {
    use[Symbol.dispose]();
    throw error;
  }
}

/** How much of a response a client may leave unread, besides one message. */
const MAX_UNREAD = 16 * 2 ** 20;

/** Ends a response of which too much is unread: the SDK keeps any amount for its client. */
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

/** The error of a request that needs a capability its client has not declared. Its HTTP status must be 400. */
const MISSING_CAPABILITY = -32021;
/** How long a response is held back to see its beginning; slower ones are not errors. */
const HOLD_MS = 100;
/** The longest frame that is examined for such an error. */
const MAX_ERROR_BYTES = 1 << 16;

const answer = z.object({
  id: z.union([z.string(), z.number()]),
  error: z.object({
    code: z.literal(MISSING_CAPABILITY),
    message: z.string(),
    data: z.unknown().optional(),
  }),
});

/** Sets the status of such an error: a response begins before its content is known. */
export async function withErrorStatus(response: Response): Promise<Response> {
  const { body, headers } = response;
  if (body === null || headers.get("content-type") !== "text/event-stream") return response;
  const reader = body.getReader();
  const first = reader.read();
  const error = await settledWithin(first, HOLD_MS) ? errorIn((await first).value) : undefined;
  if (error !== undefined) {
    await reader.cancel();
    return Response.json({ jsonrpc: "2.0", ...error }, { status: 400 });
  }
  let next: typeof first | undefined = first;
  const rest = new ReadableStream<Uint8Array<ArrayBuffer>>({
    async pull(controller) {
      const { done, value } = await (next ?? reader.read());
      next = undefined;
      if (done) controller.close();
      else controller.enqueue(value);
    },
    cancel: (reason) => reader.cancel(reason),
  });
  return new Response(rest, response);
}

function errorIn(frame: Uint8Array | undefined): z.infer<typeof answer> | undefined {
  if (frame === undefined || frame.length > MAX_ERROR_BYTES) return undefined;
  const data = /^data: (.+)$/m.exec(new TextDecoder().decode(frame))?.[1];
  if (data === undefined || !data.includes(`${MISSING_CAPABILITY}`)) return undefined;
  return answer.safeParse(parsedJson(data)).data;
}
