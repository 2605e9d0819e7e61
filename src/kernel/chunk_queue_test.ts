import { assertEquals, assertMatch } from "@std/assert";
import { ChunkQueue } from "./chunk_queue.ts";

Deno.test("ChunkQueue delivers chunks in order and ends", async () => {
  const queue = new ChunkQueue(100);
  queue.push("stdout", "a");
  queue.push("stderr", "");
  queue.push("stderr", "b");
  queue.end();
  assertEquals(await queue.next(), { type: "chunk", stream: "stdout", text: "a" });
  assertEquals(await queue.next(), { type: "chunk", stream: "stderr", text: "b" });
  assertEquals(await queue.next(), undefined);
});

Deno.test("ChunkQueue says what a slow reader missed, where it is missing", async () => {
  const queue = new ChunkQueue(10);
  queue.push("stdout", "x".repeat(20)); // a single chunk is never refused
  queue.push("stdout", "missed");
  queue.push("stdout", "too");
  assertEquals((await queue.next())?.text.length, 20);
  queue.push("stdout", "seen");
  assertMatch((await queue.next())?.text ?? "", /9 characters were not streamed/);
  assertEquals((await queue.next())?.text, "seen");
  queue.end();
});
