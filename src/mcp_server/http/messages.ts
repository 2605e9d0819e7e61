import { z } from "zod";
import { Refused } from "../../calls/door.ts";

/** The longest id or progress token, because responses and notifications repeat them. */
const MAX_ID = 256;
/** The longest name, URI or prompt argument, because errors and responses repeat them. */
const MAX_TEXT = 256 * 1024;
/** The most messages of a batch. */
const MAX_BATCH = 100;

const longId = z.string().min(MAX_ID + 1);
const longNamed = z.object({ id: longId }).or(
  z.object({ params: z.object({ _meta: z.object({ progressToken: longId }) }) }),
);

/** Rejects a body with too many messages, or with values that are too long to be repeated. */
export function checkMessages(body: unknown): void {
  const messages: readonly unknown[] = Array.isArray(body) ? body : [body];
  if (messages.length > MAX_BATCH) {
    throw new Refused(400, `A batch must not exceed ${MAX_BATCH} messages`);
  }
  if (messages.some((message) => longNamed.safeParse(message).success)) {
    throw new Refused(400, `Ids and progress tokens must not exceed ${MAX_ID} characters`);
  }
  if (messages.some((message) => isTooLong(repeated(message)))) {
    throw new Refused(400, `Names, URIs and arguments must not exceed ${MAX_TEXT} characters`);
  }
}

const named = z.object({ method: z.string(), params: z.unknown() });
const toolCall = z.object({
  method: z.literal("tools/call"),
  params: z.object({ name: z.string() }),
});

/** The part of a message that is repeated: of a call only the tool's name, as each tool limits its arguments. */
function repeated(message: unknown): unknown {
  return toolCall.safeParse(message).data ?? named.safeParse(message).data;
}

function isTooLong(value: unknown): boolean {
  if (typeof value === "string") return value.length > MAX_TEXT;
  if (typeof value !== "object" || value === null) return false;
  return Object.entries(value).some(([name, inner]) => name.length > MAX_TEXT || isTooLong(inner));
}

/** Answers a batch's messages as its responses are read: a small batch can request a lot. */
export async function inTurn(
  batch: readonly unknown[],
  answer: (message: unknown) => Promise<Response>,
): Promise<Response> {
  let first = new Response(null, { status: 202 });
  const messages = batch.values();
  for (const message of messages) {
    first = await answer(message);
    if (first.body !== null) break;
  }
  if (first.body === null || !first.ok) return first;
  return new Response(ReadableStream.from(events(first.body, messages, answer)), first);
}

async function* events(
  first: ReadableStream<Uint8Array>,
  messages: Iterable<unknown>,
  answer: (message: unknown) => Promise<Response>,
): AsyncGenerator<Uint8Array> {
  yield* first;
  for (const message of messages) {
    const response = await answer(message);
    if (response.ok) yield* response.body ?? [];
    else yield await refusalOf(message, response);
  }
}

/** A response to one message as an event among those to others. */
async function refusalOf(message: unknown, response: Response): Promise<Uint8Array> {
  const { id = null } = identified.safeParse(message).data ?? {};
  const { error } = refusal.parse(await response.json());
  const text = JSON.stringify({ jsonrpc: "2.0", id, error });
  return new TextEncoder().encode(`event: message\ndata: ${text}\n\n`);
}

const identified = z.object({ id: z.union([z.string(), z.number()]) });
const refusal = z.object({ error: z.unknown() });
