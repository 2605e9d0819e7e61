/** Remote servers that write streams without events. */
import { assert, assertMatch } from "@std/assert";
import { EventStream } from "../../src/mcp/exact_fetch.ts";

/** A stream whose parts are there immediately, as what is unpacked is; and how many were read. */
function instant(text: string, parts: number): { body: ReadableStream<Uint8Array>; read: number } {
  const part = new TextEncoder().encode(text.repeat(1 << 16));
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      if (stream.read < parts) controller.enqueue(part);
      else controller.close();
      stream.read++;
    },
  });
  const stream = { body, read: 0 };
  return stream;
}

Deno.test("a stream that never has a whole event is not read without end", async () => {
  const stream = instant(":", 5000);

  const text = await new Response(stream.body.pipeThrough(new EventStream(() => 1))).text();

  assertMatch(text, /^data: .*sent a message of more than \d+ bytes/);
  assert(stream.read < 1100, `${stream.read} parts were read`);
});
