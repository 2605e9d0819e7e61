import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import fc from "../../tests/support/fast_check.ts";
import { EventStream } from "./exact_fetch.ts";
import { MAX_MESSAGE_BYTES } from "./message.ts";

const encoder = new TextEncoder();

/** The output for a stream that is written in pieces, cut anywhere. */
async function pass(text: string, cuts: readonly number[] = []): Promise<string> {
  const bytes = encoder.encode(text);
  const places = [...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length].sort((a, b) =>
    a - b
  );
  const pieces = places.map((end, at) => bytes.slice(places[at - 1] ?? 0, end));
  const events = new EventStream(() => 7);
  return await new Response(ReadableStream.from(pieces).pipeThrough(events)).text();
}

/** Streams, and what is read of them by the standard. */
const STREAMS: readonly (readonly [sent: string, read: string])[] = [
  ["data: 1\n\n", "data: 1\n\n"],
  ["data:1\r\n\r\ndata:2\n\ndata: 3\n\n", "data: 1\n\ndata: 2\n\ndata: 3\n\n"],
  ["event: a\nid: 7\ndata: 1\n\n", "id: 7\nevent: a\ndata: 1\n\n"],
  ["id: 7\ndata: \n\n", "id: 7\ndata: \n\n"],
  ['data: {\ndata:  "a"\ndata: :1}\n\n', 'data: {"a":1}\n\n'],
  [": hello\nother: 1\nretry: 500\n\n\n\n", "retry: 500\n\n"],
  ["retry: 0\n\nretry: 0x\n\nretry: 3600000\n\n", "retry: 250\n\nretry: 60000\n\n"],
  ['\ufeffdata: "é\ufeff"\n\n', 'data: "é\ufeff"\n\n'],
  ["dat: 1\ndataa: 1\n data: 1\nDATA: 1\n\n", ""],
  ["data: not whole\n", ""],
  ["data: no JSON\n\n", "data: no JSON\n\n"],
];

Deno.test("EventStream writes the events that it reads, wherever they are cut", async () => {
  for (const [sent, read] of STREAMS) {
    const cuts = fc.array(fc.nat());
    await fc.assert(
      fc.asyncProperty(cuts, async (cuts) => assertEquals(await pass(sent, cuts), read, sent)),
      { numRuns: 50 },
    );
  }
});

Deno.test("EventStream puts an error in the place of an answer that is not JSON, and goes on", async () => {
  const answer = '{"jsonrpc":"2.0","id":7,"result":{"x":1}}';
  const read = await pass(`data: ${answer.replace("1}", "NaN}")}\n\ndata: ${answer}\n\n`);
  assertStringIncludes(read, '"error":{"code":-32603,"message":"The request ran, but');
  assertStringIncludes(read, `data: ${answer}`);
});

/** A stream of so many blocks of 1 MiB. */
function blocks(count: number): ReadableStream<Uint8Array> {
  const block = new Uint8Array(2 ** 20).fill(97);
  let at = 0;
  return new ReadableStream({
    pull(controller) {
      if (at === 0) controller.enqueue(encoder.encode("data: "));
      if (at++ < count) controller.enqueue(block);
      else controller.close();
    },
  });
}

Deno.test("EventStream ends with an error in the place of an event that is too large", async () => {
  const sent = blocks(MAX_MESSAGE_BYTES / 2 ** 20 + 1);
  const read = await new Response(sent.pipeThrough(new EventStream(() => 7))).text();
  const { id, error } = JSON.parse(read.replace(/^data: /, ""));
  assertEquals(id, 7);
  assertStringIncludes(error.message, `a message of more than ${MAX_MESSAGE_BYTES} bytes`);
});

Deno.test("EventStream fails if an event that answers no request is too large", async () => {
  const sent = blocks(MAX_MESSAGE_BYTES / 2 ** 20 + 1);
  const read = new Response(sent.pipeThrough(new EventStream(() => undefined))).text();
  await assertRejects(() => read, Error, "a message of more than");
});
