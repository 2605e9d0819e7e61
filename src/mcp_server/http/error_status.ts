import { z } from "zod";

/** The error of a request that needs what its client has not declared: its HTTP status must be 400. */
const MISSING_CAPABILITY = -32021;
/** How long an answer is held back to see its beginning. Longer ones have begun well. */
const HOLD_MS = 100;

const answer = z.object({
  id: z.union([z.string(), z.number()]),
  error: z.object({
    code: z.literal(MISSING_CAPABILITY),
    message: z.string(),
    data: z.unknown().optional(),
  }),
});

/**
 * Gives an answer the HTTP status of the error that it consists of. Answers are streams, which begin
 * before it is known what is in them, so that long cells keep their connections alive.
 */
export async function withErrorStatus(response: Response): Promise<Response> {
  const { body, headers } = response;
  if (body === null || headers.get("content-type") !== "text/event-stream") return response;
  const reader = body.getReader();
  const first = reader.read();
  const { promise: late, resolve } = Promise.withResolvers<undefined>();
  const timer = setTimeout(() => resolve(undefined), HOLD_MS);
  const early = await Promise.race([first, late]);
  clearTimeout(timer);
  const error = errorIn(early?.value);
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
  const data = /^data: (.+)$/m.exec(new TextDecoder().decode(frame))?.[1];
  if (data === undefined || !data.includes(`${MISSING_CAPABILITY}`)) return undefined;
  try {
    return answer.safeParse(JSON.parse(data)).data;
  } catch {
    return undefined; // a part of a long answer
  }
}
