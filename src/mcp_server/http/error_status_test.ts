import { assertEquals } from "@std/assert";
import { withErrorStatus } from "./answers.ts";

const HEADERS = { "content-type": "text/event-stream" };

function frame(message: unknown): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(`event: message\ndata: ${JSON.stringify(message)}\n\n`);
}

Deno.test("withErrorStatus() answers 400 where the whole answer is a missing capability", async () => {
  const error = { code: -32021, message: "no sampling", data: { requiredCapabilities: {} } };
  const sent = { jsonrpc: "2.0", id: 7, error };

  const response = await withErrorStatus(new Response(frame(sent), { headers: HEADERS }));

  assertEquals(response.status, 400);
  assertEquals(await response.json(), sent);
});

Deno.test("withErrorStatus() leaves other answers as they are", async () => {
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array<ArrayBuffer>>();
  const writer = writable.getWriter();

  // There is nothing in it yet, and it is passed on.
  const response = await withErrorStatus(new Response(readable, { headers: HEADERS }));

  const messages = [
    { jsonrpc: "2.0", method: "notifications/progress", params: { progress: 1 } },
    { jsonrpc: "2.0", id: 1, error: { code: -32021, message: "too late for a status" } },
  ];
  const text = response.text();
  for (const message of messages) await writer.write(frame(message));
  await writer.close();
  assertEquals([response.status, response.headers.get("content-type")], [
    200,
    "text/event-stream",
  ]);
  const decoder = new TextDecoder();
  assertEquals(await text, messages.map((message) => decoder.decode(frame(message))).join(""));
});

Deno.test("withErrorStatus() passes on that the client has gone", async () => {
  const gone = Promise.withResolvers<unknown>();
  const body = new ReadableStream({
    start: (controller) => controller.enqueue(frame({ jsonrpc: "2.0", id: 1, result: {} })),
    cancel: (reason) => gone.resolve(reason),
  });

  const response = await withErrorStatus(new Response(body, { headers: HEADERS }));
  await response.body?.cancel("left");

  assertEquals(await gone.promise, "left");
});
