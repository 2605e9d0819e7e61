import { assertEquals, assertRejects } from "@std/assert";
import fc from "fast-check";
import { EventStream } from "./exact_fetch.ts";
import { MessageBudget } from "./message.ts";

const encoder = new TextEncoder();

/** What comes of a stream that is written in pieces, cut anywhere. */
async function pass(text: string, cuts: readonly number[] = [], room = 10_000): Promise<string> {
  const bytes = encoder.encode(text);
  const places = [...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length].sort((a, b) =>
    a - b
  );
  const pieces = places.map((end, at) => bytes.slice(places[at - 1] ?? 0, end));
  const incoming = new MessageBudget(room).begin({});
  const events = new EventStream({
    incoming,
    data: (text) => text.replaceAll("x", "y"),
    instead: (error) => `instead: ${error}`,
  });
  const all = await new Response(ReadableStream.from(pieces).pipeThrough(events)).text();
  assertEquals(incoming.bytes, 0);
  return all;
}

/** Streams, and what is read of them by the standard. */
const STREAMS: readonly (readonly [sent: string, read: string])[] = [
  ["data: x1\n\n", "data: y1\n\n"],
  ["data:x1\r\n\r\ndata:2\r\rdata: 3\n\n", "data: y1\n\ndata: 2\n\ndata: 3\n\n"],
  ["event: a\nid: 7\ndata: 1\n\n", "event: a\nid: 7\ndata: 1\n\n"],
  ["event: a\nevent: b\ndata\n\n", "event: b\ndata: \n\n"],
  ["data: {\ndata:  x\ndata: }\n\n", "data: {\ndata:  y\ndata: }\n\n"],
  [": hello\nother: 1\nretry: 500\n\n\n\n", "retry: 500\n\n"],
  ["retry: 0\n\nretry: 0x\n\n", "retry: 250\n\nretry: 0x\n\n"],
  ["\ufeffdata: é\ufeff\n\n", "data: é\ufeff\n\n"],
  ["dat: 1\ndataa: 1\n data: 1\nDATA: 1\n\n", ""],
  ["data: not whole\n", ""],
  [`id: 1\nid: ${"x".repeat(8193)}\ndata: 1\nretry: 500\n\n`, "data: 1\nretry: 500\n\n"],
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

Deno.test("EventStream takes large responses, and no requests of that size", async () => {
  const values = Array.from({ length: 30_000 }, () => 1);
  const response = `data: ${JSON.stringify({ id: 1, result: { values, name: "method" } })}\n\n`;
  assertEquals(await pass(response, [], 1e6), response);
  const notification = `data: ${JSON.stringify({ method: "m", params: { values } })}\n\n`;
  assertEquals(
    await pass(notification + response, [], 1e6),
    "data: instead: UnusableMessageError: An MCP server sent a request or notification with more " +
      "than 10000 values\n\n",
  );
  const broken = `data: {"method": ${"[],".repeat(30_000)}\n\n`;
  assertEquals(await pass(broken, [], 1e6), broken);
});

Deno.test("EventStream gives another event in place of one that is too large, and ends", async () => {
  const fits = `data: ${"1".repeat(9000)}\n\n`;
  const all = await pass(`${fits}${fits}data: ${"1".repeat(10_001)}\n\ndata: 4\n\n`);
  assertEquals(all.slice(0, 2 * fits.length), fits + fits);
  assertEquals(
    all.slice(2 * fits.length).split(" exceed ")[0],
    "data: instead: UnusableMessageError: The messages in transit from MCP servers",
  );
  const lines = await pass("data\n".repeat(200_000));
  assertEquals(
    lines,
    "data: instead: UnusableMessageError: An MCP server sent an event of more than 100000 lines\n\n",
  );
});

Deno.test("EventStream gives up an event whose room another message takes", async () => {
  const room = new MessageBudget(1000);
  const events = new EventStream({
    incoming: room.begin({}),
    data: (text) => text,
    instead: (error) => {
      throw error;
    },
  });
  const writer = events.writable.getWriter();
  const reader = events.readable.getReader();
  const read = reader.read();
  await writer.write(encoder.encode(`data: ${"1".repeat(800)}`)); // and no more comes
  using other = room.begin({});
  other.add(300);
  await assertRejects(() => read, Error, "in total");
  await assertRejects(() => writer.write(new Uint8Array(1)), Error, "in total");
});
