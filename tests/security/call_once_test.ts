/** A call that was approved once reaches its server at most once. */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { ToolCallError } from "../../src/base/errors.ts";
import { sealObject } from "../../src/json/exact.ts";
import { McpPool } from "../../src/servers/pool.ts";
import { ServerRegistry } from "../../src/servers/registry.ts";
import { TempFolder } from "../support/temp_folder.ts";

/** A server that answers calls, and lists after the first, as if it no longer knows the session. */
function serve(received: string[]): Deno.HttpServer<Deno.NetAddr> {
  return Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    if (request.method !== "POST") return new Response(null, { status: 405 });
    const { id, method, params } = await request.json();
    if (id === undefined) return new Response(null, { status: 202 });
    received.push(method);
    if (method === "initialize") {
      const { protocolVersion } = params;
      const serverInfo = { name: "forgetful", version: "1" };
      const result = { protocolVersion, capabilities: { tools: {} }, serverInfo };
      return Response.json({ jsonrpc: "2.0", id, result }, {
        headers: { "mcp-session-id": crypto.randomUUID() },
      });
    }
    const isFirst = received.filter((other) => other === method).length === 1;
    if (method === "tools/call" || isFirst) return new Response(null, { status: 404 });
    return Response.json({ jsonrpc: "2.0", id, result: { tools: [] } });
  });
}

/** Every server may be started. */
const UNASKED = {
  approveStart: () => Promise.resolve({ params: { url: "" }, files: {} }),
  unasked: () => Promise.resolve(undefined),
};

Deno.test("a call is not sent again to a server that no longer knows the session", async () => {
  await using workspace = await TempFolder.create();
  const received: string[] = [];
  await using server = serve(received);
  const url = `http://127.0.0.1:${server.addr.port}/mcp`;
  const servers = { forgetful: { url, protocol: "legacy" } } as const;
  const registry = await ServerRegistry.open({ workspace: workspace.path, servers });
  await using pool = new McpPool({
    registry,
    starts: UNASKED,
  });
  const error = await assertRejects(
    () => pool.callTool("forgetful", "pay", sealObject({ amount: "1" })),
    ToolCallError,
  );
  assertEquals(received.filter((method) => method === "tools/call").length, 1);
  assertStringIncludes(error.message, "no longer knows the session");
  assertEquals(await pool.listTools("forgetful"), []); // lists are asked for again
  assertEquals(received.filter((method) => method === "tools/list").length, 2);
});

/** A server that forgets its session before the second call, and how it says so. */
function serveForgetful(
  answer: (id: number) => Response,
): { server: Deno.HttpServer<Deno.NetAddr>; ran: string[] } {
  const ran: string[] = [];
  const serverInfo = { name: "forgetful", version: "1" };
  let isForgotten = false;
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    if (request.method !== "POST") return new Response(null, { status: 405 });
    const { id, method, params } = await request.json();
    if (id === undefined) return new Response(null, { status: 202 });
    if (method === "initialize") {
      isForgotten = ran.length === 0; // only the first session
      const { protocolVersion } = params;
      const result = { protocolVersion, capabilities: { tools: {} }, serverInfo };
      return Response.json({ jsonrpc: "2.0", id, result }, {
        headers: { "mcp-session-id": crypto.randomUUID() },
      });
    }
    if (method === "tools/list") {
      return Response.json({ jsonrpc: "2.0", id, result: { tools: [] } });
    }
    if (isForgotten) {
      isForgotten = false;
      ran.push("refused");
      return answer(id);
    }
    ran.push(params.name);
    return Response.json({ jsonrpc: "2.0", id, result: { content: [] } });
  });
  return { server, ran };
}

async function call(server: Deno.HttpServer<Deno.NetAddr>): Promise<void> {
  await using workspace = await TempFolder.create();
  const url = `http://127.0.0.1:${server.addr.port}/mcp`;
  const servers = { forgetful: { url, protocol: "legacy" } } as const;
  const registry = await ServerRegistry.open({ workspace: workspace.path, servers });
  await using pool = new McpPool({
    registry,
    starts: UNASKED,
  });
  await pool.callTool("forgetful", "pay", sealObject({ amount: "1" }));
}

const error = (id: number | null, code: number, message: string) => ({
  ...{ jsonrpc: "2.0", id, error: { code, message } },
});

/** Answers of servers that have not run the call, because they do not know its session. */
const REFUSALS: Readonly<Record<string, (id: number) => Response>> = {
  "HTTP 404": () => Response.json(error(null, -32001, "Session not found"), { status: 404 }),
  "HTTP 400": () =>
    Response.json(error(null, -32000, "Bad Request: No valid session ID provided"), {
      status: 400,
    }),
};

for (const [name, refusal] of Object.entries(REFUSALS)) {
  Deno.test(`a call that a server did not run for an unknown session is sent again, by ${name}`, async () => {
    const { server, ran } = serveForgetful(refusal);
    await using _server = server;
    await call(server);
    assertEquals(ran, ["refused", "pay"]);
  });
}

/** Answers that may come after the call has run. */
const FAILURES: Readonly<Record<string, (id: number) => Response>> = {
  "HTTP 400 that answers the request": (id) =>
    Response.json(error(id, -32000, "Charged, but the checkout session has expired"), {
      status: 400,
    }),
  "HTTP 400 in words": () => new Response("The checkout session has expired", { status: 400 }),
  "HTTP 404 of a proxy": () => new Response("not found", { status: 404 }),
  "HTTP 502": () => new Response("Session not found", { status: 502 }),
  "HTTP 503": () => new Response(null, { status: 503 }),
  "a refused request": (id) => Response.json(error(id, -32600, "Session not found")),
  "an error of the tool": (id) => Response.json(error(id, -32603, "Session not found")),
};

for (const [name, failure] of Object.entries(FAILURES)) {
  Deno.test(`a call that may have run is not sent again, by ${name}`, async () => {
    const { server, ran } = serveForgetful(failure);
    await using _server = server;
    const { message } = await assertRejects(() => call(server), ToolCallError);
    assertEquals(ran, ["refused"]);
    if (name.startsWith("HTTP 50")) assertStringIncludes(message, "may have run");
  });
}
