import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import { ToolCallError } from "../base/errors.ts";
import { limitBacklog } from "./client.ts";
import { connectMcp } from "./connect.ts";
import { StreamableHTTPClientTransport } from "./sdk.ts";

Deno.test("limitBacklog() ends a connection by HTTP whose server does not answer", async () => {
  const closing = Promise.withResolvers<Response>();
  await using server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    () => closing.promise,
  );
  const url = new URL(`http://127.0.0.1:${server.addr.port}/`);
  const transport = new StreamableHTTPClientTransport(url);
  const failures: Error[] = [];
  limitBacklog(transport, (error) => void failures.push(error));
  await transport.start();
  const answer = { jsonrpc: "2.0", id: 1, result: { x: "x".repeat(2 ** 20) } } as const;
  const sent = Array.from({ length: 128 }, () => transport.send(answer));
  await assertRejects(() => transport.send(answer), Error, "does not read its input");
  assertEquals(failures.length, 1);
  assertMatch(failures[0]?.message ?? "", /128 MiB are waiting for it/);
  await transport.close();
  for (const { status } of await Promise.allSettled(sent)) assertEquals(status, "rejected");
  const next = transport.send(answer); // nothing waits any more, so this is not what it fails for
  await assertRejects(() =>
    next.then(() => Promise.reject(new Error("sent")), (e) => Promise.reject(e))
  );
  assertEquals(failures.length, 1);
  closing.resolve(new Response());
});

Deno.test("a server that asks by HTTP and takes no answers is disconnected", async () => {
  const never = Promise.withResolvers<Response>();
  const id = "x".repeat(2 ** 20);
  let asked = 0;
  const questions = () =>
    new ReadableStream<string>({
      pull(controller) {
        if (asked++ === 400) controller.close();
        else {
          const ping = JSON.stringify({ jsonrpc: "2.0", id: id + asked, method: "ping" });
          controller.enqueue(`data: ${ping}\n\n`);
        }
      },
    }).pipeThrough(new TextEncoderStream());
  await using server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    async (request) => {
      if (request.method === "GET") {
        return new Response(questions(), { headers: { "content-type": "text/event-stream" } });
      }
      const { id, method, params } = request.method === "POST"
        ? await request.json().catch(() => ({})) // the client may be gone before it has sent all
        : {};
      if (method === "initialize") {
        const { protocolVersion } = params;
        const serverInfo = { name: "raw", version: "1" };
        const result = { protocolVersion, capabilities: { tools: {} }, serverInfo };
        return Response.json({ jsonrpc: "2.0", id, result });
      }
      if (request.method !== "POST" || method === "notifications/initialized") {
        return new Response(null, { status: 202 });
      }
      return await never.promise;
    },
  );
  const lines: string[] = [];
  const ignore = () => {};
  const log = {
    debug: ignore,
    info: ignore,
    warn: (line: string) => void lines.push(line),
    error: ignore,
  };
  const url = `http://127.0.0.1:${server.addr.port}/mcp`;
  await using connection = await connectMcp("remote", { url, protocol: "legacy" }, { log });
  const call = connection.callTool("count", {}, { timeoutMs: 60_000 });
  const { type } = await assertRejects(() => call, ToolCallError);
  assertEquals(type, "server_unreachable");
  await connection.closed;
  assertMatch(lines.join("\n"), /"remote" is disconnected: .*128 MiB are waiting for it/);
  never.resolve(new Response(null, { status: 202 }));
});
