/** Remote servers that write streams without events. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { readWhole } from "../../src/base/bytes.ts";
import { EventStream } from "../../src/mcp/exact_fetch.ts";

/** A stream whose parts are there immediately, as what is unpacked is; and how many were read. */
function instant(text: string, parts: number): { body: ReadableStream<Uint8Array>; read: number } {
  const part = new TextEncoder().encode(text.repeat((1 << 16) / text.length));
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

const events = () => new EventStream(() => 1);

for (const [text, parts] of [["\n", 1000], ["\r", 20], ["a", 1000], [":", 1000]] as const) {
  Deno.test(`a stream of ${JSON.stringify(text)} leaves others their turns`, async () => {
    const stream = instant(text, parts);
    const turn = new Promise<number>((resolve) => setTimeout(() => resolve(stream.read)));

    assertEquals(await new Response(stream.body.pipeThrough(events())).text(), "");

    assert(await turn < parts, "all of it was read first");
  });
}

Deno.test("a response leaves others their turns", async () => {
  const stream = instant("a", 1000);
  const turn = new Promise<number>((resolve) => setTimeout(() => resolve(stream.read)));

  await readWhole(stream.body, { maxBytes: 2 ** 30, tooLong: () => new RangeError() });

  assert(await turn < 1000, "all of it was read first");
});

Deno.test("a stream that never has a whole event is not read without end", async () => {
  const stream = instant(":", 5000);

  const text = await new Response(stream.body.pipeThrough(events())).text();

  assertMatch(text, /^data: .*sent a message of more than \d+ bytes/);
  assert(stream.read < 1100, `${stream.read} parts were read`);
});
