/** The approval WebSocket: `ApprovalClient` on one side, the application's door on the other. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { ApprovalClient } from "../../src/approval/client.ts";
import { ApprovalRequest } from "../../src/approval/request.ts";
import { ToolCallError } from "../../src/base/errors.ts";
import { silentLogger } from "../../src/base/log.ts";
import { ToolServer } from "../../src/calls/tool_server.ts";
import { rawServer } from "../support/mcp.ts";
import { until } from "../support/wait.ts";

async function start(approvalTimeoutMs?: number): Promise<ToolServer> {
  const servers = { raw: rawServer() };
  return await ToolServer.start({ servers, approvalTimeoutMs, log: silentLogger });
}

function approve(
  server: ToolServer,
  onRequest: (request: ApprovalRequest) => void | Promise<void>,
): Promise<ApprovalClient> {
  const { url, token } = server.applicationDoor;
  return ApprovalClient.connect({ url, token, onRequest, log: silentLogger });
}

async function refusal(call: Promise<unknown>): Promise<string[]> {
  const error = await assertRejects(() => call, ToolCallError);
  return [error.type, error.details.reason ?? ""];
}

Deno.test("ApprovalClient decides calls, sees all of them, and may edit", async () => {
  await using server = await start();
  const seen: unknown[] = [];
  await using _client = await approve(server, async (request) => {
    seen.push([
      request.kind,
      `${request}`,
      request.argumentsJson,
      request.annotations?.readOnlyHint,
    ]);
    if (request.toolArgs.n === 1) await request.accept();
    else if (request.toolArgs.n === 2) await request.accept({ arguments: { n: 2n ** 64n } });
    else await request.reject("no");
  });
  const echo = async (n: number) => {
    const { content } = await server.runner.run("raw", "echo", { n });
    return JSON.stringify(content).match(/\\"n\\":(\d+)/)?.[1];
  };
  assertEquals(await echo(1), "1");
  assertEquals(await echo(2), "18446744073709551616");
  assertEquals(await refusal(echo(3)), ["approval_rejected", "no"]);
  assertEquals(seen[0], ["tool", "raw.echo(n=1)", '{"n":1}', true]);
});

Deno.test("ApprovalClient answers several calls, each with its own decision", async () => {
  await using server = await start();
  await using _client = await approve(server, async (request) => {
    if (Number(request.toolArgs.n) % 2 === 0) await request.accept();
    else await request.reject(`no ${request.toolArgs.n}`);
  });
  const calls = Array.from(
    { length: 6 },
    (_, n) =>
      server.runner.run("raw", "echo", { n }).then(() => "ok", (error) => error.details.reason),
  );
  assertEquals(await Promise.all(calls), ["ok", "no 1", "ok", "no 3", "ok", "no 5"]);
});

Deno.test("calls are refused when the approver leaves, and before one comes", async () => {
  await using server = await start();
  const gone = ["approval_unavailable", "Approval channel not connected"];
  assertEquals(await refusal(server.runner.run("raw", "count")), gone);
  const asked = Promise.withResolvers<ApprovalRequest>();
  const client = await approve(server, (request) => asked.resolve(request));
  const call = refusal(server.runner.run("raw", "count"));
  const request = await asked.promise;
  await client[Symbol.asyncDispose]();
  assertEquals(await call, ["approval_unavailable", "Approval channel disconnected"]);
  assert(request.signal.aborted);
  assertEquals(await request.accept(), false);
  assertEquals(await refusal(server.runner.run("raw", "count")), gone);
});

Deno.test("ApprovalClient learns that a request has expired", async () => {
  await using server = await start(50);
  const asked = Promise.withResolvers<ApprovalRequest>();
  await using _client = await approve(server, (request) => asked.resolve(request));
  const reason = ["approval_timeout", "No decision within 0.05 s"];
  assertEquals(await refusal(server.runner.run("raw", "count")), reason);
  const request = await asked.promise;
  await request.response;
  assertEquals(await request.accept(), false);
});

Deno.test("ApprovalClient rejects what its callback failed on", async () => {
  await using server = await start();
  await using _client = await approve(server, () => Promise.reject(new Error("broken")));
  const reason = ["approval_rejected", "Approver failed"];
  assertEquals(await refusal(server.runner.run("raw", "count")), reason);
});

Deno.test("reset and end refuse what waits for approval", async () => {
  const server = await start();
  const client = await approve(server, () => {});
  const first = refusal(server.runner.run("raw", "count"));
  await until(() => server.runner.channel.pending === 1);
  await server.reset();
  assertEquals((await first)[1], "The tool server was reset");
  const second = refusal(server.runner.run("raw", "count"));
  await until(() => server.runner.channel.pending === 1);
  await server[Symbol.asyncDispose]();
  assertEquals((await second)[1], "The tool server was stopped");
  await client.closed;
});

Deno.test("a tool server that ends says so to its approver", async () => {
  const server = await start();
  const { url, token } = server.applicationDoor;
  const headers = { authorization: `Bearer ${token}` };
  const socket = new WebSocket(`ws://${url.host}/approval`, { headers });
  const gone = Promise.withResolvers<CloseEvent>();
  socket.onclose = (event) => gone.resolve(event);
  await new Promise((resolve) => socket.onopen = resolve);
  await server[Symbol.asyncDispose]();
  const { code, wasClean } = await gone.promise;
  assertEquals([code, wasClean], [1001, true]);
});

Deno.test("ApprovalClient says why it cannot connect", async () => {
  await using server = await start();
  const { url } = server.applicationDoor;
  const connect = (token: string) =>
    ApprovalClient.connect({ url, token, onRequest: () => {}, log: silentLogger });
  await assertRejects(() => connect("wrong"), Error, "401");
  await assertRejects(() => connect(server.kernelDoor.token), Error, "401");
});

Deno.test("ApprovalClient shows no call whose id is that of another one, and rejects it", async () => {
  const answered = Promise.withResolvers<string>();
  await using server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, (request) => {
    const { socket, response } = Deno.upgradeWebSocket(request, {
      protocol: "ipybox.approval.v1",
    });
    socket.onopen = () => {
      const call = { kind: "tool", serverName: "s", toolName: "read", arguments: {} } as const;
      const { id } = new ApprovalRequest(call);
      const params = { server_name: "s", tool_name: "delete", tool_args: {}, kind: "tool" };
      socket.send(JSON.stringify({ jsonrpc: "2.0", id, method: "approve", params }));
    };
    socket.onmessage = ({ data }) => answered.resolve(String(data));
    return response;
  });
  const { hostname, port } = server.addr;
  const seen: string[] = [];
  await using _client = await ApprovalClient.connect({
    url: `http://${hostname}:${port}`,
    token: "t",
    onRequest: (request) => void seen.push(`${request}`),
    log: silentLogger,
  });
  const { result } = JSON.parse(await answered.promise);
  assertEquals(result, { approved: false, reason: "The approver was shown a different call" });
  assertEquals(seen, []);
});

Deno.test("arguments that an approver edited are judged by the server alone", async () => {
  await using server = await start();
  const inputSchema = { type: "object", properties: { n: { type: "integer" } } };
  await using _client = await approve(server, async (request) => {
    const isCall = request.toolName === "echo";
    await request.accept(isCall ? { arguments: { n: "one" } } : {});
  });
  await server.runner.run("raw", "define", { tool: { name: "echo", inputSchema } });
  const { content: [block] } = await server.runner.run("raw", "echo", { n: 1 });
  assertEquals(JSON.parse(String(block?.text)).params.arguments, { n: "one" });
});
