import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
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

Deno.test({
  name: "readBody() leaves the rest of a refused body, which Deno.serve() would read otherwise",
  sanitizeResources: false, // the body is freed as garbage
  fn: async () => {
    const handler = (request: Request) =>
      readBody(request, 2 ** 24).then(
        () => new Response(),
        () => new Response(null, { status: 400 }),
      );
    await using server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, handler);
    using client = await Deno.connect({ hostname: "127.0.0.1", port: server.addr.port });
    const head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" +
      "Transfer-Encoding: chunked\r\n\r\n";
    const text = new TextEncoder().encode(head + "1\r\nx\r\n".repeat(1100)); // without its end
    for (let at = 0; at < text.length;) at += await client.write(text.subarray(at));
    const answer = new Uint8Array(1000);
    const length = await client.read(answer) ?? 0;
    assertStringIncludes(new TextDecoder().decode(answer.subarray(0, length)), "connection: close");
  },
});
