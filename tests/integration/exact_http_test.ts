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

/** Bodies whose data something beside it could hide from what measures it, each with a bomb in place of `BOMB`. */
const HIDDEN: Readonly<Record<string, string[]>> = {
  "behind a comment with a lone quote": [': "\ndata: BOMB\n\n'],
  "behind a comment that ends with a backslash": [': "\\\ndata: BOMB\n\n'],
  "behind a backslash at the end of a write": [': "\\', "\ndata: BOMB\n\n"],
  "behind a line that ends with a carriage return": [': "\\\rdata: BOMB\n\n'],
  "behind a name in pieces": [': "\r\nda', "ta", ": BOMB\r\n\r\n"],
  "behind a byte order mark": ["\ufeffdata: BOMB\n\n"],
  "over several lines": ['data: {"a":\n: "\ndata: BOMB\ndata: }\n\n'],
};

for (const [name, pieces] of Object.entries(HIDDEN)) {
  Deno.test(`too many values in an event end its call ${name}`, async () => {
    const send: Sent = (message) =>
      message.includes("structuredContent")
        ? events(
          pieces.map((piece) =>
            piece.replace("BOMB", () => message.replace('"bomb"', `[${"[],".repeat(1.2e6)}1]`))
          ),
        )
        : WAYS.JSON!(message);
    await using server = serve(send);
    const url = `http://127.0.0.1:${server.addr.port}/mcp`;
    await using connection = await connectMcp("exact", { url, protocol: "legacy" });
    await assertRejects(
      () => connection.callTool("any", sealObject({ json: '"bomb"' }), { timeoutMs: 20_000 }),
      Error,
      "more than 1000000 values",
    );
  });
}

Deno.test("nesting that is closed on a comment line counts", async () => {
  const [open, close] = ["[".repeat(1500), "]".repeat(1500)];
  const send: Sent = (message) =>
    message.includes("structuredContent")
      ? events([`data: ${open}\n: ${close}\ndata: ${open}${close}${close}\n\n`])
      : WAYS.JSON!(message);
  await using server = serve(send);
  const url = `http://127.0.0.1:${server.addr.port}/mcp`;
  await using connection = await connectMcp("exact", { url, protocol: "legacy" });
  await assertRejects(
    () => connection.callTool("any", sealObject({ json: '"deep"' }), { timeoutMs: 20_000 }),
    Error,
    "nests more than 500 levels deep",
  );
});

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
