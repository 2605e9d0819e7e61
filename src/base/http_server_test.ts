import { assertEquals, assertMatch } from "@std/assert";
import { testIf } from "../../tests/support/skip.ts";
import { until } from "../../tests/support/wait.ts";
import { readWhole } from "./bytes.ts";
import { HttpServer } from "./http_server.ts";
import { silentLogger } from "./log.ts";

function serve(handler: (request: Request) => Promise<Response>): HttpServer {
  return new HttpServer({ hostname: "127.0.0.1", port: 0, handler, log: silentLogger });
}

const descriptors = async () => (await Array.fromAsync(Deno.readDir("/proc/self/fd"))).length;

testIf(Deno.build.os === "linux", "reads /proc", {
  name: "HttpServer keeps nothing of a body that was refused while it came",
  fn: async () => {
    await using server = serve(async ({ body }) => {
      const tooLong = () => new Error("too long");
      await readWhole(body, { maxBytes: 10, tooLong }).catch(() => {});
      return new Response(null, { status: 400 });
    });
    const { hostname, port } = server.addr;
    const before = await descriptors();
    await Promise.all(Array.from({ length: 20 }, async () => {
      using client = await Deno.connect({ hostname, port });
      const head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n";
      await client.write(new TextEncoder().encode(head + "x".repeat(1000)));
      const answer = new Uint8Array(1000);
      const length = await client.read(answer) ?? 0;
      assertMatch(new TextDecoder().decode(answer.subarray(0, length)), /^HTTP\/1\.1 400 /);
    }));
    await until("its connections are closed", async () => await descriptors() <= before);
  },
});

Deno.test("HttpServer takes bodies in chunks", async () => {
  await using server = serve(async (request) => new Response(`${(await request.text()).length}`));
  const { hostname, port } = server.addr;
  for (const pieces of [1, 60, 300]) {
    const body = ReadableStream.from(Array.from({ length: pieces }, () => new Uint8Array(5000)));
    const response = await fetch(`http://${hostname}:${port}`, { method: "POST", body });
    assertEquals(await response.text(), `${pieces * 5000}`);
  }
});
