import { assert, assertEquals, assertRejects } from "@std/assert";
import fc from "../../tests/support/fast_check.ts";
import { ByteBuffer, inBlocks, joinBytes, readWhole } from "./bytes.ts";

const MIB = 2 ** 20;
const tooLong = () => new RangeError("too long");

/** A body of so many bytes, each of them in a buffer of 64 KiB of its own. */
function tinyPieces(count: number): ReadableStream<Uint8Array> {
  let sent = 0;
  return new ReadableStream({
    pull(controller) {
      controller.enqueue(new Uint8Array(1 << 16).subarray(0, 1));
      if (++sent === count) controller.close();
    },
  });
}

Deno.test("ByteBuffer gives what it was given", () => {
  const pieces = fc.array(fc.uint8Array({ maxLength: 3000 }));
  fc.assert(fc.property(pieces, (given) => {
    const buffer = new ByteBuffer();
    for (const piece of given) {
      const copy = piece.slice();
      buffer.add(copy);
      copy.fill(0); // it may change afterwards
    }
    assertEquals(buffer.length, joinBytes(...given).length);
    assertEquals(buffer.take(), joinBytes(...given));
    assertEquals(buffer.take(), new Uint8Array(0));
  }));
});

Deno.test("readWhole() keeps the bytes of pieces and not their buffers", async () => {
  const body = tinyPieces(20_000);
  const bytes = await readWhole(body, { maxBytes: MIB, tooLong });
  assertEquals(bytes.length, 20_000);
  assert(bytes.buffer.byteLength < 64 * 1024);
});

Deno.test("readWhole() cancels a body that is too long, or that nobody wants any more", async () => {
  let cancelled = 0;
  const body = () =>
    new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(new Uint8Array(1000)),
      cancel: () => void cancelled++,
    });
  await assertRejects(() => readWhole(body(), { maxBytes: 999, tooLong }), RangeError, "too long");
  assertEquals(cancelled, 1);
  const stop = new AbortController();
  const reading = readWhole(body(), { maxBytes: 1000, tooLong, signal: stop.signal });
  stop.abort(new Error("not wanted"));
  await assertRejects(() => reading, Error, "not wanted");
  assertEquals(cancelled, 2);
  const late = readWhole(body(), { maxBytes: 1000, tooLong, signal: stop.signal });
  await assertRejects(() => late, Error, "not wanted");
  assertEquals(cancelled, 3);
  assertEquals(await readWhole(null, { maxBytes: 0, tooLong }), new Uint8Array(0));
});

Deno.test("inBlocks() makes few blocks of many pieces", async () => {
  const sizes = [];
  for await (const block of inBlocks(tinyPieces(2500), 1000)) sizes.push(block.length);
  assertEquals(sizes, [1000, 1000, 500]);
});
