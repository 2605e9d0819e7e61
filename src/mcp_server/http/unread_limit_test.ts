import { assertEquals, assertRejects } from "@std/assert";
import { withUnreadLimit } from "./answers.ts";

const MIB = 2 ** 20;

/** A response in parts of so many MiB, all of which are there immediately. */
function responseOf(...parts: number[]): { response: Response; cancelled: Promise<unknown> } {
  const cancelled = Promise.withResolvers<unknown>();
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const part of parts) controller.enqueue(new Uint8Array(part * MIB));
    },
    cancel: cancelled.resolve,
  });
  return {
    response: new Response(body, { headers: { "x-own": "1" } }),
    cancelled: cancelled.promise,
  };
}

Deno.test("withUnreadLimit() ends a response of which too much is unread", async () => {
  const { response, cancelled } = responseOf(10, 10, 1);
  const exceeded = Promise.withResolvers<void>();

  const limited = withUnreadLimit(response, exceeded.resolve);

  await exceeded.promise;
  await cancelled;
  await assertRejects(() => limited.bytes(), Error, "More than 16777216 bytes");
});

Deno.test("withUnreadLimit() takes one message of any length, and all that is read", async () => {
  const { response, cancelled } = responseOf(40);
  const exceeded = () => {
    throw new Error("nothing is unread");
  };

  const limited = withUnreadLimit(response, exceeded);

  assertEquals(limited.headers.get("x-own"), "1");
  const reader = limited.body!.getReader();
  assertEquals((await reader.read()).value?.length, 40 * MIB);
  await reader.cancel("left");
  assertEquals(await cancelled, "left");
});
