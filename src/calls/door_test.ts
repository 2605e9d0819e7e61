import { assertEquals, assertRejects } from "@std/assert";
import { declaredLength, readBody, Refused } from "./door.ts";

function request(pieces: number, size: number): Request {
  const body = ReadableStream.from(Array.from({ length: pieces }, () => new Uint8Array(size)));
  return new Request("http://127.0.0.1/", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body,
  });
}

Deno.test("readBody() reads bodies in pieces of any size, but not endlessly many small ones", async () => {
  assertEquals((await readBody(request(3000, 1400), 2 ** 24)).length, 3000 * 1400);
  assertEquals((await readBody(request(1000, 1), 2 ** 24)).length, 1000);
  const { status } = await assertRejects(
    () => readBody(request(1_000_000, 1), 2 ** 24),
    Refused,
    "too many small pieces",
  );
  assertEquals(status, 400);
});

Deno.test("declaredLength() knows no length where there are several", () => {
  const declared = (length: string) =>
    declaredLength(new Request("http://x", { headers: { "content-length": length } }));
  assertEquals([declared("2"), declared("2, 2")], [2, undefined]);
});
