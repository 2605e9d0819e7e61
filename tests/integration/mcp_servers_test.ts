import { trustedPath } from "../../src/process/trusted_path.ts";
import {
  assert,
  assertEquals,
  assertGreater,
  assertMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { ConfigError, McpConnectionError, ToolCallError } from "../../src/base/errors.ts";
import { parseExact, sealObject } from "../../src/json/exact.ts";
import { connectMcp } from "../../src/mcp/connect.ts";
import type { McpConnection } from "../../src/mcp/connection.ts";
import type { StdioServerParams } from "../../src/mcp/params.ts";
import { fixtureServer, freePort, npmServer, rawServer, startHttpServer } from "../support/mcp.ts";
import { TempFolder } from "../support/temp_folder.ts";

const args = (value: unknown) => sealObject(parseExact(JSON.stringify(value)));

async function text(connection: McpConnection, tool: string, value: unknown = {}): Promise<string> {
  const { content } = await connection.callTool(tool, args(value));
  return content.map((block) => `${block.text ?? block.type}`).join("|");
}

async function failure(call: Promise<unknown>): Promise<ToolCallError> {
  return await assertRejects(() => call, ToolCallError);
}

for (const [mode, path] of [["streamableHttp", "mcp"], ["sse", "sse"]] as const) {
  Deno.test(`server-everything over HTTP, ${mode}`, async () => {
    const params = npmServer("server-everything", mode);
    await using server = await startHttpServer(params, /listening|running on port/i, freePort());
    const url = `http://127.0.0.1:${server.port}/${path}`;
    await using connection = await connectMcp("everything", { url });
    assertGreater((await connection.listTools()).length, 5);
    assertEquals(await text(connection, "get-sum", { a: 1, b: 2 }), "The sum of 1 and 2 is 3.");
    assertMatch(await text(connection, "get-tiny-image"), /\|image\|/);
  });
}

Deno.test("an address that does not tell its transport is tried with both", async () => {
  const params = npmServer("server-everything", "sse");
  await using server = await startHttpServer(params, /listening|running on port/i, freePort());
  await using proxy = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, (request) => {
    const { pathname, search } = new URL(request.url);
    const path = pathname === "/other" ? "/sse" : pathname;
    return fetch(`http://127.0.0.1:${server.port}${path}${search}`, request);
  });
  const url = `http://127.0.0.1:${proxy.addr.port}/other`;
  {
    await using connection = await connectMcp("everything", { url });
    assertEquals(await text(connection, "echo", { message: "hi" }), "Echo: hi");
  }
  const wrong = await assertRejects(
    () => connectMcp("everything", { url: `http://127.0.0.1:${server.port}/nothing?key=secret` }),
    McpConnectionError,
    'Cannot reach MCP server "everything"',
  );
  assert(!wrong.message.includes("secret"));
});

Deno.test("a server of the newer era alone, over HTTP", async () => {
  await using server = await startHttpServer(fixtureServer("sdk_v2_http_server.ts"), /^\d+\n/);
  const url = `http://127.0.0.1:${server.port}/mcp`;
  await using connection = await connectMcp("modern", { url });
  assertEquals(await text(connection, "echo", { value: [1, "a"] }), '[1,"a"]');
  assertEquals((await connection.callTool("list", args({}))).structuredContent, []);
  const cancel = new AbortController();
  const call = failure(connection.callTool("wait", args({}), { signal: cancel.signal }));
  await server.untilSays("waiting");
  cancel.abort();
  assertEquals((await call).type, "cancelled");
  await server.untilSays("cancelled");
});

Deno.test("all pages of tools are listed", async () => {
  await using connection = await connectMcp("raw", rawServer("pages"));
  assertEquals((await connection.listTools()).length, 10);
});

Deno.test("a tool that is added late is there after settling, and found after a change", async () => {
  await using connection = await connectMcp("raw", rawServer("late"));
  assertEquals(await connection.findTool("late"), undefined);
  const names = (await connection.listTools({ settleMs: 300 })).map(({ name }) => name);
  assertEquals(names.at(-1), "late");
  assertEquals((await connection.findTool("late"))?.name, "late");
});

Deno.test("an answer that is not JSON fails its call, and no other one", async () => {
  await using connection = await connectMcp("raw", rawServer());
  const slow = text(connection, "sleep", { ms: 1000 });
  for (const json of ["NaN", "Infinity", '{"a":1,}']) {
    const call = connection.callTool("structured", { json }, { timeoutMs: 30_000 });
    const { type, message } = await assertRejects(() => call, ToolCallError);
    assertEquals(type, "protocol_error");
    assertMatch(message, /"raw" .*The request ran, but the server's answer is not JSON: /);
  }
  assertEquals(await slow, "slept");
  const json = '{"content":[]}}{"jsonrpc":"2.0","method":"notifications/tools/list_changed"';
  assertEquals((await connection.callTool("result", { json })).content, []); // two in one line
});

Deno.test("an answer that is not JSON and names no request fails those that wait", async () => {
  await using connection = await connectMcp("raw", rawServer());
  const slow = connection.callTool("sleep", { ms: 60_000 }, { timeoutMs: 30_000 });
  const broken = connection.callTool("broken", {}, { timeoutMs: 30_000 });
  for (const call of [slow, broken]) {
    const { message } = await assertRejects(() => call, ToolCallError);
    assertMatch(message, /an answer, perhaps to this request, that is not JSON/);
  }
  assertEquals(await text(connection, "count"), "1");
});

Deno.test("a server that does not list its tools in time is not waited for", async () => {
  const params = { ...rawServer("listless"), connectTimeoutMs: 3000 };
  await using connection = await connectMcp("raw", params);
  const { type, message } = await assertRejects(() => connection.listTools(), ToolCallError);
  assertEquals(type, "server_unreachable");
  assertMatch(message, /"raw" did not list its tools within 3 s.* --connect-timeout SECONDS/);
});

Deno.test("each way in which a call can fail has its own type", async () => {
  await using connection = await connectMcp("raw", rawServer());
  const invalid = await failure(connection.callTool("fail", args({ code: -32602 })));
  assertEquals([invalid.type, invalid.details], ["invalid_arguments", {
    code: -32602,
    data: { a: 1 },
  }]);
  const protocol = await failure(connection.callTool("fail", args({ code: -32000 })));
  assertEquals(protocol.type, "protocol_error");
  for (const json of ['{"content":1}', "5", "null", "[]"]) {
    const malformed = await failure(
      connection.callTool("result", args({ json }), { timeoutMs: 20_000 }),
    );
    assertEquals(malformed.type, "protocol_error", json);
  }
  const late = await failure(connection.callTool("sleep", args({ ms: 60_000 }), { timeoutMs: 20 }));
  assertEquals(late.type, "tool_timeout");
  assertEquals(await text(connection, "count"), "1");
  const died = await failure(connection.callTool("die", args({ code: 5 })));
  assertEquals([died.type, died.details.exitCode], ["server_died", 5]);
  assert(!died.message.includes("last words"), "stderr may hold secrets");
  await connection.closed;
});

Deno.test("a server gets the usual environment and its own, and no secrets of the host", async () => {
  Deno.env.set("IPYBOX_TEST_SECRET_SERVERS", "secret");
  try {
    const params = { ...rawServer(), env: { GIVEN: "${IPYBOX_TEST_SECRET_SERVERS}!" } };
    await using connection = await connectMcp("raw", params);
    const environment = JSON.parse(await text(connection, "env"));
    const { GIVEN, PATH, IPYBOX_TEST_SECRET_SERVERS } = environment;
    assertEquals([GIVEN, PATH, IPYBOX_TEST_SECRET_SERVERS], [
      "secret!",
      // As far as it can be trusted: without what package runners put in front.
      await trustedPath(Deno.env.get("PATH") ?? ""),
      undefined,
    ]);
  } finally {
    Deno.env.delete("IPYBOX_TEST_SECRET_SERVERS");
  }
});

Deno.test("a server gets what the user's own programs get in this network and language", async () => {
  const variables = {
    https_proxy: "http://proxy.invalid:3128",
    REQUESTS_CA_BUNDLE: "/etc/ca.pem",
    TZ: "Europe/Berlin",
    LC_TIME: "de_DE.UTF-8",
  };
  const code = `import { inheritedEnvironment } from "${
    import.meta.resolve("../../src/mcp/params.ts")
  }";
    console.log(JSON.stringify(await inheritedEnvironment()));`;
  const config = new URL("../../deno.json", import.meta.url).pathname;
  const { stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["eval", "--quiet", "--ext=ts", `--config=${config}`, code],
    env: { ...variables, GITHUB_TOKEN: "secret" },
  }).output();
  const inherited = JSON.parse(new TextDecoder().decode(stdout));
  for (const [name, value] of Object.entries(variables)) assertEquals(inherited[name], value);
  assertEquals(inherited.GITHUB_TOKEN, undefined);
});

Deno.test("a server that does not find a file is told how to write its path", async () => {
  await using workspace = await TempFolder.create();
  await Deno.writeTextFile(`${workspace.path}/srv.py`, "");
  const fail = (params: StdioServerParams) =>
    assertRejects(() => connectMcp("x", params, { workspace: workspace.path }), McpConnectionError);

  const { message } = await fail({ command: "python3", args: ["srv.py"] });

  assertStringIncludes(message, `"srv.py" is in the workspace, but the server starts in an empty`);
  assertStringIncludes(message, "write '${workspaceFolder}/srv.py'");
  const shim = {
    command: "/bin/sh",
    args: ["-c", 'echo "set one in $PWD/.tool-versions" >&2; exit 126'],
  };
  assertMatch((await fail(shim)).message, /code 126 .*starts in an empty folder: .*--cwd DIR/);
});

Deno.test("variables come from the environment, then from the workspace's .env", async () => {
  await using folder = await TempFolder.create();
  await Deno.writeTextFile(`${folder.path}/.env`, "FROM_FILE=file\nPATH=evil\n");
  const params = { ...rawServer(), env: { A: "${FROM_FILE}", B: "${PATH}" } };
  await using connection = await connectMcp("raw", params, { workspace: folder.path });
  const { A, B } = JSON.parse(await text(connection, "env"));
  assertEquals([A, B], ["file", Deno.env.get("PATH")]);
});

Deno.test("a server starts in an empty folder, away from where executed code writes", async () => {
  await using workspace = await TempFolder.create();
  const options = { workspace: workspace.path };
  const params = { ...rawServer(), env: { HERE: "${workspaceFolder}" } };
  let cwd: string;
  {
    await using connection = await connectMcp("raw", params, options);
    assertEquals(JSON.parse(await text(connection, "env")).HERE, workspace.path);
    cwd = await text(connection, "cwd");
    assertEquals(await Array.fromAsync(Deno.readDir(cwd)), []);
    assert(cwd !== workspace.path && cwd !== Deno.cwd());
  }
  await assertRejects(() => Deno.stat(cwd), Deno.errors.NotFound);
  await Deno.mkdir(`${workspace.path}/own`);
  await using own = await connectMcp("raw", { ...params, cwd: "own" }, options);
  assertEquals(await text(own, "cwd"), `${workspace.path}/own`);
});

Deno.test("servers that cannot be started or reached say why, and whose they are", async () => {
  const shell = (script: string) => ({ command: "/bin/sh", args: ["-c", script] });
  const wrong = [
    [shell("echo dying >&2; exit 3"), /"x" exited with code 3 [^]*dying/],
    [shell("kill -9 $$"), /"x" was killed by SIGKILL/],
    [{ command: "no-such-command" }, /MCP server "x": no-such-command is not on the PATH/],
    [{ command: "/bin/true", cwd: "/no/such/folder" }, /\/no\/such\/folder does not exist/],
    [
      { ...rawServer("hang"), connectTimeoutMs: 500 },
      /"x" did not complete the MCP handshake within 0.5 s/,
    ],
    [{ url: "http://127.0.0.1:9/mcp" }, /Cannot reach MCP server "x" at http:\/\/127.0.0.1:9\/mcp/],
  ] as const;
  for (const [params, message] of wrong) {
    const error = await assertRejects(
      () => connectMcp("x", params),
      McpConnectionError,
    );
    assertEquals(error.serverName, "x");
    assertMatch(error.message, message);
  }
});

Deno.test("nothing is started where parameters make no sense", async () => {
  const journal = await Deno.makeTempFile();
  const params = { ...rawServer("normal", journal), env: { A: "${IPYBOX_TEST_UNSET}" } };
  await assertRejects(() => connectMcp("x", params), ConfigError, "${IPYBOX_TEST_UNSET}");
  await assertRejects(
    () => connectMcp("x", { ...rawServer("normal", journal), sandbox: "/no/such/settings.json" }),
    ConfigError,
    "/no/such/settings.json do not exist",
  );
  await assertRejects(() => connectMcp("x", { url: "file:///etc/passwd" }), ConfigError, "http");
  await assertRejects(() => connectMcp("../x", rawServer("normal", journal)), TypeError);
  assertEquals(await Deno.readTextFile(journal), "");
  await Deno.remove(journal);
});
