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

/** A client without any manners. */
async function rude(
  server: ToolServer,
): Promise<{ socket: WebSocket; next: () => Promise<string> }> {
  const { url, token } = server.applicationDoor;
  const headers = { authorization: `Bearer ${token}` };
  const socket = new WebSocket(`ws://${url.host}/approval`, { headers });
  const messages: string[] = [];
  socket.onmessage = ({ data }) => messages.push(String(data));
  await new Promise((resolve) => socket.onopen = resolve);
  return {
    socket,
    next: async () => {
      await until(() => messages.length > 0);
      return messages.shift() ?? "";
    },
  };
}

async function closed(socket: WebSocket): Promise<void> {
  socket.close();
  await new Promise((resolve) => socket.onclose = resolve);
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

Deno.test("a second approver waits for the first one to leave", async () => {
  await using server = await start();
  const first = await approve(server, (request) => void request.reject("first"));
  const second = approve(server, (request) => void request.reject("second"));
  assertEquals((await refusal(server.runner.run("raw", "count")))[1], "first");
  await first[Symbol.asyncDispose]();
  await using _second = await second;
  assertEquals((await refusal(server.runner.run("raw", "count")))[1], "second");
});

Deno.test("a second approver is sent away when the first one stays", async () => {
  await using server = await start();
  await using _first = await approve(server, (request) => void request.reject("first"));
  await assertRejects(() => approve(server, (request) => void request.accept()), Error, "409");
  assertEquals((await refusal(server.runner.run("raw", "count")))[1], "first");
});

Deno.test("answers that are none approve nothing, and harm nobody", async () => {
  await using server = await start();
  const { socket, next } = await rude(server);
  for (const text of ["", "{", "true", "[]", '{"jsonrpc":"2.0","id":"unknown","result":true}']) {
    socket.send(text);
  }
  socket.send(new Uint8Array([1, 2, 3]));
  for (const result of ["1", '"true"', "{}", "null", '{"approved":true}', '{"approved":"true"}']) {
    const call = refusal(server.runner.run("raw", "count"));
    const { id } = JSON.parse(await next());
    socket.send(`{"jsonrpc":"2.0","id":"${id}","result":${result}}`);
    assertEquals(await call, ["approval_rejected", "The approver's answer was malformed"], result);
  }
  const call = server.runner.run("raw", "count");
  const { id } = JSON.parse(await next());
  socket.send(`{"jsonrpc":"2.0","id":"${id}","result":true}`);
  assertEquals((await call).content[0]?.text, "1", "none of the calls above has run");
  // An answer cannot be used again, nor changed.
  socket.send(`{"jsonrpc":"2.0","id":"${id}","result":false}`);
  const later = refusal(server.runner.run("raw", "count"));
  const second = JSON.parse(await next());
  socket.send(`{"jsonrpc":"2.0","id":"${id}","result":true}`);
  assert(second.id !== id);
  socket.send(`{"jsonrpc":"2.0","id":"${second.id}","result":false}`);
  assertEquals((await later)[0], "approval_rejected");
  await closed(socket);
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
  const { socket } = await rude(server);
  const gone = Promise.withResolvers<CloseEvent>();
  socket.onclose = (event) => gone.resolve(event);
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

Deno.test("an answer counts for the call that its id is bound to, once", async () => {
  await using server = await start();
  const { socket, next } = await rude(server);
  const call = (n: number) => server.runner.run("raw", "echo", { n });
  const [one, two] = [call(1), refusal(call(2))];
  const ids: string[] = [];
  for (const message of [await next(), await next()]) ids.push(JSON.parse(message).id);
  const [first = "", second = ""] = ids;
  const [random, hash] = first.split(".");
  const answer = (id: string, result: unknown) =>
    socket.send(JSON.stringify({ jsonrpc: "2.0", id, result }));
  for (
    const forged of [
      `${random}.${second.split(".")[1]}`,
      `${crypto.randomUUID()}.${hash}`,
      `${random}`,
      `${first}.`,
      first.toUpperCase(),
    ]
  ) answer(forged, true);
  answer(second, false);
  assertEquals(await two, ["approval_rejected", "no reason was given"]);
  answer(second, true); // too late
  assertEquals(server.runner.channel.pending, 1);
  answer(first, true);
  assertEquals((await one).isError, undefined);
  const three = refusal(call(1)); // the same call, and another id
  const { id } = JSON.parse(await next());
  assert(id !== first && id.split(".")[1] === hash);
  answer(first, true);
  answer(id, false);
  assertEquals((await three)[0], "approval_rejected");
  await closed(socket);
});

const MALFORMED = "The approver's answer was malformed";

/** What an approver may answer to have it remembered, and whether it is accepted and remembered. */
const REMEMBERING: readonly (readonly [answer: unknown, outcome: string, again: boolean])[] = [
  [{ approved: true, remember: { scope: "session", match: "tool" } }, "ok", false],
  [
    { approved: true, arguments: { n: 1 }, remember: { scope: "session", match: "tool" } },
    "ok",
    false,
  ],
  [
    { approved: false, reason: "no", remember: { scope: "session", match: "tool" } },
    "no",
    false,
  ],
  [
    { approved: true, remember: { scope: "cell", match: "tool" } },
    "The approver's answer cannot be used: Cannot remember this decision for " +
    '"cell": use session',
    true,
  ],
  [{ approved: true, remember: { scope: "ever", match: "tool" } }, MALFORMED, true],
  [{ approved: true, remember: { scope: "session" } }, MALFORMED, true],
  [{ approved: true, remember: { scope: "session", match: "tool", more: 1 } }, MALFORMED, true],
  [{ approved: true, remember: true }, MALFORMED, true],
  [{ approved: true }, MALFORMED, true],
  [{ approved: 1, remember: { scope: "session", match: "tool" } }, MALFORMED, true],
];

for (const [answer, outcome, again] of REMEMBERING) {
  Deno.test(`the answer ${JSON.stringify(answer)} comes to ${outcome.slice(0, 20)}`, async () => {
    await using server = await start();
    const { socket, next } = await rude(server);
    const call = () =>
      server.runner.run("raw", "echo", { n: 1 }).then(() => "ok", (error) => {
        return error instanceof ToolCallError ? error.details.reason : `${error}`;
      });
    const first = call();
    const { id } = JSON.parse(await next());
    socket.send(JSON.stringify({ jsonrpc: "2.0", id, result: answer }));
    assertEquals(await first, outcome);
    const second = call();
    if (again) {
      const { id } = JSON.parse(await next());
      socket.send(JSON.stringify({ jsonrpc: "2.0", id, result: true }));
    }
    const expected = again || outcome === "ok" ? "ok" : "remembered for this session, " +
      "for any arguments: no";
    assertEquals(await second, expected);
    await closed(socket);
  });
}

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
