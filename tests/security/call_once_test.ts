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

Deno.test("a call is not sent again to a server that no longer knows the session", async () => {
  await using workspace = await TempFolder.create();
  const received: string[] = [];
  await using server = serve(received);
  const url = `http://127.0.0.1:${server.addr.port}/mcp`;
  const servers = { forgetful: { url, protocol: "legacy" } } as const;
  const registry = await ServerRegistry.open({ workspace: workspace.path, servers });
  await using pool = new McpPool({ registry, admit: () => Promise.resolve() });
  const error = await assertRejects(
    () => pool.callTool("forgetful", "pay", sealObject({ amount: "1" })),
    ToolCallError,
  );
  assertEquals(received.filter((method) => method === "tools/call").length, 1);
  assertStringIncludes(error.message, "no longer knows the session");
  assertEquals(await pool.listTools("forgetful"), []); // lists are asked for again
  assertEquals(received.filter((method) => method === "tools/list").length, 2);
});
