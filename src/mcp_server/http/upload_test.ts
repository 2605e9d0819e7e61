import { assert, assertEquals, assertRejects } from "@std/assert";
import { FakeTime } from "../../../tests/support/fake_time.ts";
import { Refused } from "../../calls/http_checks.ts";
import { uploadedPieces } from "./session_files.ts";

Deno.test("uploadedPieces() refuses a body of which nothing comes, and one without an end", async () => {
  using time = new FakeTime();
  let isCancelled = false;
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(new Uint8Array(10)),
    cancel: () => void (isCancelled = true),
  });
  const pieces = uploadedPieces(body);
  assertEquals((await pieces.next()).value?.length, 10);
  const second = pieces.next();
  const refused = assertRejects(() => second, Refused, "too slowly");
  for (let round = 0; round < 100; round++) await Promise.resolve();
  time.advance(60_000);
  await refused;
  assert(isCancelled);

  const endless = ReadableStream.from((function* () {
    for (;;) yield new Uint8Array(2 ** 28);
  })());
  await assertRejects(
    async () => {
      for await (const _piece of uploadedPieces(endless));
    },
    Refused,
    "exceeds",
  );
});
