import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { makeSessionFolders } from "../../src/mcp_server/http/session_folders.ts";
import { McpServer } from "../../src/mcp_server/mcp_server.ts";
import { ServerRegistry } from "../../src/servers/registry.ts";
import { silentLogger } from "../../src/base/log.ts";
import { INITIALIZE } from "../support/initialize.ts";
import { ipybox } from "../support/cli.ts";
import { inThisProcess } from "../support/command_io.ts";
import { until } from "../support/wait.ts";
import { HttpMcp } from "../support/http_mcp.ts";
import { CLIENT_KINDS, McpHost } from "../support/mcp_client.ts";
import { rawServer } from "../support/mcp.ts";
import { RAW } from "../support/mcp_workspace.ts";
import { processesWith, untilNoneWith } from "../support/processes.ts";
import { testPython } from "../support/python.ts";
import { stepsOf } from "../support/steps.ts";
import { TempCache } from "../support/temp_cache.ts";
import { TempFolder } from "../support/temp_folder.ts";

const CELL = "execute_ipython_cell";

Deno.test("Clients over HTTP keep their state and do not see each other's", async (t) => {
  await using workspace = await TempFolder.create();
  await using server = await HttpMcp.start(["--workspace", workspace.path]);
  const step = stepsOf(t);
  const folders: string[] = [];
  await using hosts = new AsyncDisposableStack();
  const joined: McpHost[] = [];
  for (const kind of CLIENT_KINDS) {
    const host = hosts.use(await McpHost.join(server.address, { kind }));
    joined.push(host);
    await step(kind, async () => {
      assert((await host.tools()).some(({ name }) => name === CELL));
      assertEquals((await host.call(CELL, { code: "'x' in globals()" })).text, "False");
      await host.call(CELL, { code: "x = 41; open('mine', 'w').close()" });
      assertEquals((await host.call(CELL, { code: "x + 1" })).text, "42");
      const { text } = await host.call(CELL, {
        code: "import os; print(os.getcwd()); print(os.listdir('..'), os.path.exists('mine'))",
      });
      const [folder = "", others = ""] = text.split("\n");
      assertEquals(others, `['${folder.split("/").at(-1)}'] True`);
      assertStringIncludes(folder, `${await makeSessionFolders(workspace.path)}/`);
      folders.push(folder);
    });
  }
  assertEquals(new Set(folders).size, CLIENT_KINDS.length);

  await step("texts name files by the paths that GET takes", async () => {
    const [host] = joined;
    assert(host !== undefined);
    await using outside = await TempFolder.create();
    await Deno.writeTextFile(`${outside.path}/secret`, "of the host");
    const { url, token } = server.address;
    const code = `import os
os.symlink("${outside.path}", "out")
from IPython.display import HTML
display(HTML("<b>page</b>"))
display({"image/svg+xml": "<svg/>"}, raw=True)`;
    const { text } = await host.call(CELL, { code });
    const [, page = ""] =
      /^\[HTML: (\/sessions\/[\w-]+\/files\/images\/\w+\.html)\]$/m.exec(text) ??
        [];
    const [, image = ""] = /\((\/sessions\/[\w-]+\/files\/images\/\w+\.svg)\)/.exec(text) ?? [];
    const headers = { authorization: `Bearer ${token}` };
    for (const [path, content] of [[page, "<b>page</b>"], [image, "<svg/>"]] as const) {
      const response = await fetch(new URL(path, url), { headers });
      assertStringIncludes(await response.text(), content, text);
    }
    const link = new URL(page.replace(/images.*/, "out/secret"), url);
    const response = await fetch(link, { headers });
    assertEquals([response.status, (await response.text()).includes("of the host")], [404, false]);
  });

  await step("SIGTERM ends the server, and leaves no process", async () => {
    assertEquals((await server.stop("SIGTERM")).code, 0);
    await untilNoneWith(workspace.path);
  });
});

Deno.test("Sessions over HTTP have the workspace's packages, and their own", async () => {
  await using workspace = await TempFolder.create();
  await using cache = await TempCache.create();
  const names = "from importlib.metadata import distributions as d\n" +
    "print(sorted({x.name for x in d()} & {'iniconfig', 'toolz'}))";
  const { code, stderr } = await ipybox(
    ["install", "iniconfig", "--workspace", workspace.path],
    { env: cache.env },
  );
  assertEquals(code, 0, stderr);
  const folder = `${cache.env.XDG_CACHE_HOME}/ipybox/python/packages`;
  const kept = async () => (await Array.fromAsync(Deno.readDir(folder))).length;
  {
    await using server = await HttpMcp.start(["--workspace", workspace.path], { cache });
    await using one = await McpHost.join(server.address, { kind: "1.x" });
    await using other = await McpHost.join(server.address, { kind: "1.x" });
    const { isError, text } = await one.call("install_package", { package_name: "toolz" });
    assertEquals(isError, false, text);
    assertEquals((await one.call(CELL, { code: names })).text, "['iniconfig', 'toolz']");
    assertEquals((await other.call(CELL, { code: names })).text, "['iniconfig']");
    assertEquals(await kept(), 3);
  }
  assertEquals(await kept(), 1);
});

Deno.test("A client of the newer era opens sessions, names them and closes them", async () => {
  await using workspace = await TempFolder.create();
  await using server = await HttpMcp.start([
    "--workspace",
    workspace.path,
    "--max-sessions",
    "2",
    "--no-sandbox",
  ]);
  await using host = await McpHost.join(server.address, { kind: "2.x 2026-07-28" });
  await host.call(CELL, { code: "x = 'shared'" });
  const session = await host.openSession();

  assertEquals((await host.call(CELL, { code: "'x' in globals()", session })).text, "False");
  await host.call(CELL, { code: "x = 'own'", session });
  assertEquals((await host.call(CELL, { code: "x", session })).text, "'own'");
  assertEquals((await host.call(CELL, { code: "x" })).text, "'shared'");

  const full = await host.call("open_session");
  assertEquals(full.isError, true);
  assertStringIncludes(full.text, "All 2 sessions are in use: close one");
  assertEquals((await host.call("close_session", { session })).text, `Closed session ${session}`);
  const gone = await host.call(CELL, { code: "x", session });
  assertEquals(gone.isError, true);
  assertStringIncludes(gone.text, `There is no session "${session}"`);
  assertEquals((await host.call("open_session")).isError, false);
});

Deno.test("Who has no token, another owner's handle, or is a web page gets nothing", async () => {
  await using workspace = await TempFolder.create();
  const tokens = ["alice-alice-alice-alice", "bob-bob-bob-bob-bob-bob"] as const;
  await Deno.writeTextFile(`${workspace.path}/tokens`, `# two\n${tokens.join("\n")}\n`);
  await using server = await HttpMcp.start(
    ["--workspace", workspace.path, "--token-file", `${workspace.path}/tokens`],
  );
  const { url } = server.address;
  const post = async (headers: Record<string, string>, body: unknown = INITIALIZE) => {
    const response = await fetch(url, {
      method: "POST",
      headers: {
        accept: "application/json, text/event-stream",
        "content-type": "application/json",
        ...headers,
      },
      body: JSON.stringify(body),
    });
    await response.body?.cancel();
    return response;
  };
  const alice = { authorization: `Bearer ${tokens[0]}` };
  const bob = { authorization: `Bearer ${tokens[1]}` };

  for (const authorization of ["", "Bearer ", "Bearer nonsense", `Basic ${tokens[0]}`]) {
    const { status, headers } = await post(authorization === "" ? {} : { authorization });
    assertEquals([status, headers.get("www-authenticate")], [401, 'Bearer realm="ipybox"']);
  }
  for (const origin of ["http://evil.example", "null", "http://localhost:9999"]) {
    assertEquals((await post({ ...alice, origin })).status, 403, origin);
  }
  assertEquals(await statusWith(url, tokens[0], { host: "evil.example" }), 421);
  for (const method of ["TRACE", "PATCH"]) {
    assertEquals(await statusWith(url, tokens[0], { method }), 405, method);
  }
  assertEquals((await post({ ...alice, "content-type": "text/plain" })).status, 415);

  const opened = await post(alice);
  assertEquals(opened.status, 200);
  const id = opened.headers.get("mcp-session-id") ?? "";
  assert(id !== "");
  const list = { jsonrpc: "2.0", id: 2, method: "tools/list" };
  const inSession = { "mcp-session-id": id, "mcp-protocol-version": "2025-11-25" };
  assertEquals((await post({ ...alice, ...inSession }, list)).status, 200);
  assertEquals((await post({ ...bob, ...inSession }, list)).status, 404);
  assertEquals((await post(alice, list)).status, 400); // it names no session

  const file = new URL(`/sessions/${id}/files/a%20b/c.txt`, url);
  const put = async (headers: HeadersInit, at: URL, body: string) =>
    (await fetch(at, { method: "PUT", headers, body })).status;
  assertEquals(await put(alice, file, "hello"), 204);
  assertEquals(await (await fetch(file, { headers: alice })).text(), "hello");
  for (const headers of [bob, {}]) {
    const response = await fetch(file, { headers });
    await response.body?.cancel();
    assert(response.status === 404 || response.status === 401);
  }
  const entriesOf = async (path: string) => {
    const response = await fetch(new URL(`/sessions/${id}/files/${path}`, url), { headers: alice });
    const entries: { name: string; type: string; size: number }[] = await response.json();
    return entries.map(({ name, type, size }) => `${type} ${name} ${size}`);
  };
  assert((await entriesOf("")).includes("folder a b 0"));
  assert(!(await entriesOf("")).some((entry) => entry.includes(".ipybox")));
  assertEquals(await entriesOf("a%20b/"), ["file c.txt 5"]);
  for (const [path, status] of Object.entries({ "none/": 404, ".ipybox/": 403, "../": 404 })) {
    const response = await fetch(new URL(`/sessions/${id}/files/${path}`, url), { headers: alice });
    await response.body?.cancel();
    assertEquals(response.status, status, path);
  }
  const own = new URL(`/sessions/${id}/files/.ipybox/mcp.json`, url);
  for (const path of [own.pathname, `/sessions/${id}/files/..%2F..%2Ftokens`]) {
    const response = await fetch(new URL(path, url), { headers: alice });
    await response.body?.cancel();
    assertEquals(response.status, 403, path);
  }

  const closed = await fetch(url, { method: "DELETE", headers: { ...alice, ...inSession } });
  await closed.body?.cancel();
  assertEquals(closed.status, 200);
  assertEquals((await post({ ...alice, ...inSession }, list)).status, 404);
});

Deno.test("What opens no session takes no room from those that do", async () => {
  await using workspace = await TempFolder.create();
  await using server = await HttpMcp.start([
    ...["--workspace", workspace.path, "--max-sessions", "1", "--no-sandbox"],
  ]);
  const { url, token } = server.address;
  const post = async (body: string, accept = "application/json, text/event-stream") => {
    const headers = {
      accept,
      authorization: `Bearer ${token}`,
      "content-type": "application/json",
    };
    const response = await fetch(url, { method: "POST", headers, body });
    await response.body?.cancel();
    return response;
  };
  const initialize = JSON.stringify(INITIALIZE);
  assertEquals((await post(initialize, "text/plain")).status, 406);
  assertEquals((await post(initialize, "text/plain")).status, 406); // and not 503
  const deep = "[".repeat(100_000) + "]".repeat(100_000);
  for (const body of ["null", "3", '"x"', "[]", "{", "", '{"jsonrpc":"2.0","id":1}']) {
    assertEquals((await post(body)).status, 400, body.slice(0, 30));
  }
  assertEquals((await post(deep)).status, 413);
  const together = await Promise.all([1, 2, 3].map(() => post(initialize)));
  assertEquals(together.map(({ status }) => status).sort(), [200, 503, 503]);
  const id = together.find(({ ok }) => ok)?.headers.get("mcp-session-id") ?? "";
  const headers = { authorization: `Bearer ${token}`, "mcp-session-id": id };
  const long = new URL(`/sessions/${id}/files/${"a".repeat(300)}`, url);
  const put = await fetch(long, { method: "PUT", headers, body: "x" });
  assertEquals([put.status, (await put.json()).error.message.slice(-28)], [
    403,
    " be used: File name too long",
  ]);
});

Deno.test("Servers of HTTP sessions get their variables from the workspace's .env", async () => {
  await using workspace = await TempFolder.create();
  await Deno.writeTextFile(`${workspace.path}/.env`, "FROM_DOTENV=the value\n");
  const registry = await ServerRegistry.open({ workspace: workspace.path });
  const env = { A: "${FROM_DOTENV}", B: "${workspaceFolder}" };
  await registry.register("raw", { ...rawServer(), env });
  await using server = await HttpMcp.start(["--workspace", workspace.path, "--approve", "allow"]);
  await using host = await McpHost.join(server.address, { kind: "1.x" });

  const code = `${RAW}import json, os\nenv = json.loads(raw.run_sync("env").text)\n` +
    `print(env["A"], env["B"] == os.getcwd(), os.path.exists("../../.env"))`;
  assertEquals((await host.call(CELL, { code })).text, "the value True False");
});

/** `fetch` does not let its caller choose the host, or the method TRACE. */
async function statusWith(
  url: URL,
  token: string,
  { method = "POST", host = url.host }: { method?: string; host?: string },
): Promise<number> {
  using connection = await Deno.connect({ hostname: url.hostname, port: Number(url.port) });
  const request = `${method} ${url.pathname} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n` +
    `Authorization: Bearer ${token}\r\nContent-Length: 0\r\n\r\n`;
  await connection.write(new TextEncoder().encode(request));
  const text = await new Response(connection.readable).text();
  return Number(text.split(" ")[1]);
}

Deno.test("A session that nobody uses is closed, and its kernel with it", async () => {
  await using workspace = await TempFolder.create();
  await using server = await McpServer.serveHttp({
    workspace: workspace.path,
    sessionIdleMs: 3000,
    python: testPython(),
    log: silentLogger,
  });
  assert(server.http?.token !== undefined);
  const { url, token } = server.http;
  await using host = await McpHost.join({ url, token }, { kind: "2.x 2026-07-28" });
  const session = await host.openSession();
  // Longer than it may idle, but it is in use.
  assertEquals(
    (await host.call(CELL, { code: "import time; time.sleep(4); 'done'", session })).text,
    "'done'",
  );

  await until(
    "its kernel has ended",
    async () => (await processesWith(session)).length === 0,
  );

  assertEquals((await host.call(CELL, { code: "1", session })).isError, true);
});

Deno.test("ipybox mcp --http leaves no process after SIGKILL", async () => {
  await using workspace = await TempFolder.create();
  await using server = await HttpMcp.start(["--workspace", workspace.path]);
  await using host = await McpHost.join(server.address, { kind: "2.x legacy" });
  assertEquals((await host.call(CELL, { code: "6 * 7" })).text, "42");

  await server.stop("SIGKILL");

  await untilNoneWith(workspace.path);
});

Deno.test("ipybox mcp --http says what is wrong with its options", async () => {
  await using workspace = await TempFolder.create();
  await Deno.writeTextFile(`${workspace.path}/short`, "abc\n");
  using taken = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const port = String(taken.addr.port);
  const started = await inThisProcess(["mcp", "--http", port], { workspace: workspace.path });
  assertEquals(started.code, 2, started.stderr);
  assertStringIncludes(started.stderr, `Port ${port} is in use: choose another one`);

  const http = ["--http", "0"];
  const short = `${workspace.path}/short`;
  for (
    const [args, message] of [
      [["--http", "80000"], 'takes a port from 0 to 65535: received "80000"'],
      [["--host", "0.0.0.0"], "Option --host needs --http"],
      [["--durable"], "Option --durable needs --http"],
      [[...http, "--durable"], "Option --durable needs --token-file or --no-token"],
      [[...http, "--session", "work"], "cannot be combined: use --durable"],
      [
        [...http, "--no-token", "--host", "0.0.0.0"],
        "Option --no-token works only on a loopback address",
      ],
      [[...http, "--no-token", "--token-file", short], "cannot be combined"],
      [[...http, "--token-file", short], "A bearer token must have 16 to 1000 characters"],
      [[...http, "--token-file", "none"], 'No file "none"'],
      [[...http, "--project", "/"], "code could read the whole home directory"],
    ] as const
  ) {
    const { code, stderr } = await inThisProcess(["mcp", "--workspace", workspace.path, ...args]);
    assertEquals(code, 2, stderr);
    assertStringIncludes(stderr, message);
  }
});
