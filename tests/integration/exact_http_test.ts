/** Numbers of results that come by HTTP, in each of the ways in which they can. */
import { assertEquals, assertRejects } from "@std/assert";
import { sealObject, stringifyExact } from "../../src/json/exact.ts";
import { connectMcp } from "../../src/mcp/connect.ts";

const NUMBERS = '{"one":1.0,"big":12345678901234567890,"zero":-0,"text":"é \\ud800","list":[1e2]}';

/** How a body is sent: as JSON, or as events in pieces. */
type Sent = (message: string) => Response;

const encoder = new TextEncoder();

function events(pieces: string[]): Response {
  // Pulled one by one, so that each piece is a write of its own.
  const body = ReadableStream.from(pieces.map((piece) => encoder.encode(piece)));
  return new Response(body, { headers: { "content-type": "text/event-stream" } });
}

const WAYS: Readonly<Record<string, Sent>> = {
  JSON: (message) => new Response(message, { headers: { "content-type": "application/json" } }),
  events: (message) => events([`event: message\ndata: ${message}\n\n`]),
  "events in pieces": (message) =>
    events(["event: mess", `age\r\ndata: ${message.slice(0, 40)}`, message.slice(40), "\r\n\r\n"]),
};

function serve(
  send: Sent,
  answerGet = () => new Response(null, { status: 405 }),
): Deno.HttpServer<Deno.NetAddr> {
  return Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    if (request.method === "GET") return answerGet();
    if (request.method !== "POST") return new Response(null, { status: 405 });
    const { id, method, params } = await request.json();
    if (id === undefined) return new Response(null, { status: 202 });
    switch (method) {
      case "initialize": {
        const { protocolVersion } = params;
        const serverInfo = { name: "exact", version: "1" };
        const result = { protocolVersion, capabilities: { tools: {} }, serverInfo };
        return send(JSON.stringify({ jsonrpc: "2.0", id, result }));
      }
      case "server/discover": {
        const supportedVersions = ["2026-07-28"];
        const result = { resultType: "complete", supportedVersions, capabilities: {} };
        return send(JSON.stringify({ jsonrpc: "2.0", id, result }));
      }
      case "tools/call": {
        const { json } = params.arguments;
        const result = `{"resultType":"complete","content":[],"structuredContent":${json}}`;
        return send(`{"jsonrpc":"2.0","id":${id},"result":${result}}`);
      }
      default:
        return send(JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32601, message: "no" } }));
    }
  });
}

for (const [name, send] of Object.entries(WAYS)) {
  Deno.test(`structured content arrives as it was written, as ${name}`, async () => {
    await using server = serve(send);
    const url = `http://127.0.0.1:${server.addr.port}/mcp`;
    for (const protocol of ["legacy", "2026-07-28"] as const) {
      await using connection = await connectMcp("exact", { url, protocol });
      for (const json of [NUMBERS, "1.0", "[]", "null", '"text"', '"structuredContent"']) {
        const { structuredContent } = await connection.callTool("any", sealObject({ json }));
        assertEquals(stringifyExact(structuredContent), json);
      }
    }
  });
}

for (const [name, send] of Object.entries(WAYS)) {
  Deno.test(`an answer that is not JSON fails its call, as ${name}`, async () => {
    await using server = serve(send);
    const url = `http://127.0.0.1:${server.addr.port}/mcp`;
    await using connection = await connectMcp("exact", { url, protocol: "legacy" });
    const call = (json: string) =>
      connection.callTool("any", sealObject({ json }), { timeoutMs: 20_000 });
    await assertRejects(() => call('{"a":NaN}'), Error, "The request ran, but the server's answer");
    assertEquals((await call("{}")).structuredContent, {});
  });
}

for (const [name, send] of Object.entries(WAYS)) {
  Deno.test(`a result of too many values ends its call, as ${name}`, async () => {
    // Made by the server: arguments have the same limit.
    const bomb: Sent = (message) => send(message.replace('"bomb"', `[${"[],".repeat(1.2e6)}1]`));
    await using server = serve(bomb);
    const url = `http://127.0.0.1:${server.addr.port}/mcp`;
    await using connection = await connectMcp("exact", { url, protocol: "legacy" });
    const json = '"bomb"';
    await assertRejects(
      () => connection.callTool("any", sealObject({ json }), { timeoutMs: 20_000 }),
      Error,
      "more than 1000000 values",
    );
  });
}

Deno.test("what answers a GET is measured as events, whatever type it has", async () => {
  const ended = Promise.withResolvers<string>();
  const piece = encoder.encode("[],".repeat(20_000));
  const stream = () => {
    let pieces = 0;
    return new ReadableStream({
      pull(controller) {
        controller.enqueue(++pieces === 1 ? encoder.encode("data: [") : piece);
        if (pieces === 1500) ended.resolve("read to its end");
      },
      cancel: () => ended.resolve("cancelled"),
    });
  };
  await using server = serve(
    WAYS.JSON!,
    () => new Response(stream(), { headers: { "content-type": "application/json" } }),
  );
  const url = `http://127.0.0.1:${server.addr.port}/mcp`;
  await using _connection = await connectMcp("exact", { url, protocol: "legacy" });
  assertEquals(await ended.promise, "cancelled");
});
