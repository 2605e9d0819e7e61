import { z } from "zod";
import { Semaphore } from "../../base/mutex.ts";
import { RateLimit } from "../../base/rate_limit.ts";
import { Refused } from "../../calls/door.ts";
import { requestCost } from "../../calls/door_server.ts";
import { measureJson } from "../../json/measure.ts";

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

/** What {@linkcode untilSent} does at a response's end. */
interface UntilSentOptions {
  /** Ends with the response, however that ends. */
  readonly use: Disposable;
  /** Called when the client has gone before it had all. */
  readonly onGone?: () => void;
}

/**
 * Follows a response to its end: when its body has been sent, or nobody reads it any more.
 *
 * The request's own signal cannot tell: in Deno it also aborts after responses that were sent.
 */
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

/** What the requests of all clients may take together, and least of it that each owner may. */
const TOTAL = 512 * 2 ** 20;
const LEAST_SHARE = 64 * 2 ** 20;
/** What a file takes that comes in small pieces, most of it in buffers of the HTTP server. */
const FILE_BYTES = 8 * 2 ** 20;
/** How many small pieces of files an owner may send: each costs a step, however small it is. */
const PIECES_PER_SECOND = 1000;
const PIECES_AT_ONCE = 10_000;

/**
 * The memory of the host that requests may take, from the first byte of a body until they are answered.
 * Each owner has an equal share, so that none can keep others out. What does not fit is refused.
 */
export class RequestBudget {
  readonly #all = new Semaphore(TOTAL);
  readonly #share: number;
  readonly #shares = new Map<string, Semaphore>();
  readonly #pieces = new Map<string, RateLimit>();

  /** @param owners How many there are. */
  constructor(owners: number) {
    this.#share = Math.max(LEAST_SHARE, Math.floor(TOTAL / owners));
  }

  /** Takes what a body needs while it comes. */
  forBody(owner: string, length: number): Disposable {
    return this.#take(owner, length);
  }

  /** Takes what a request needs once its body is parsed. */
  forRequest(owner: string, body: Uint8Array): Disposable {
    return this.#take(owner, requestCost(body, measureJson(body).values));
  }

  /** Takes what a file needs while it comes or goes. */
  forFile(owner: string): Disposable {
    return this.#take(owner, FILE_BYTES);
  }

  /** Gives the limit of how many small pieces all files of an owner may come in. */
  piecesOf(owner: string): RateLimit {
    return this.#pieces.getOrInsertComputed(
      owner,
      () => new RateLimit(PIECES_PER_SECOND, PIECES_AT_ONCE),
    );
  }

  #take(owner: string, bytes: number): Disposable {
    using taken = new DisposableStack();
    if (taken.use(this.#shareOf(owner).tryAcquire(bytes)) === undefined) {
      throw new Refused(429, "Your pending requests use too much memory: wait for their answers");
    }
    if (taken.use(this.#all.tryAcquire(Math.min(bytes, this.#share))) === undefined) {
      throw new Refused(
        503,
        "The pending requests of all clients use too much memory: try again later",
      );
    }
    return taken.move();
  }

  #shareOf(owner: string): Semaphore {
    return this.#shares.getOrInsertComputed(owner, () => new Semaphore(this.#share));
  }
}
