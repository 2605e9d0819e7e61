import { assert, assertEquals, assertMatch } from "@std/assert";
import { ChunkQueue } from "./spill_file.ts";

Deno.test("ChunkQueue delivers chunks in order and ends", async () => {
  const queue = new ChunkQueue();
  queue.push("stdout", "a");
  queue.push("stderr", "");
  queue.push("stderr", "b");
  queue.end();
  assertEquals(await queue.next(), { type: "chunk", stream: "stdout", text: "a" });
  assertEquals(await queue.next(), { type: "chunk", stream: "stderr", text: "b" });
  assertEquals(await queue.next(), undefined);
});

Deno.test("ChunkQueue says what a slow reader missed, where it is missing", async () => {
  const queue = new ChunkQueue<string>(10);
  queue.push("stdout", "x".repeat(20)); // a single chunk is never refused
  queue.push("stdout", "missed");
  queue.push("stdout", "too");
  queue.add("never missed");
  queue.push("stdout", "!");
  assertEquals(await textOfNext(queue), "x".repeat(20));
  assertMatch(await textOfNext(queue) ?? "", /\n\[ipybox: 9 characters were not streamed/);
  assertEquals(await textOfNext(queue), "never missed");
  queue.push("stdout", "seen");
  assertMatch(await textOfNext(queue) ?? "", / 1 characters were not streamed/);
  assertEquals(await textOfNext(queue), "seen");
  queue.end();
});

Deno.test("ChunkQueue bounds what many small chunks take, too", async () => {
  const queue = new ChunkQueue(100_000);
  for (let count = 0; count < 100_000; count++) queue.push("stdout", ".");
  queue.end();
  let chunks = 0;
  while (await queue.next() !== undefined) chunks++;
  assert(chunks < 1000, `${chunks} chunks waited`);
});

async function textOfNext(queue: ChunkQueue<string>): Promise<string | undefined> {
  const value = await queue.next();
  return typeof value === "object" ? value.text : value;
}
