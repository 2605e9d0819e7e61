/** How servers are started, replaced and ended by the pool behind the tool server. */
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { ToolCallError } from "../../src/base/errors.ts";
import { silentLogger } from "../../src/base/log.ts";
import { connectMcp } from "../../src/mcp/connect.ts";
import type { ServerParams } from "../../src/mcp/params.ts";
import { ToolRunner } from "../../src/calls/runner.ts";
import { fixtureServer, isAlive, rawServer, startHttpServer } from "../support/mcp.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { until } from "../support/wait.ts";

function start(
  servers: Record<string, ServerParams>,
  connectTimeoutMs?: number,
): Promise<ToolRunner> {
  return ToolRunner.start({ servers, approval: "allow", log: silentLogger, connectTimeoutMs });
}

async function text(runner: ToolRunner, server: string, tool: string, args = {}): Promise<string> {
  const { content } = await runner.run(server, tool, args);
  return String(content[0]?.text);
}

function starts(journal: string): number[] {
  try {
    return [...Deno.readTextFileSync(journal).matchAll(/start (\d+)/g)].map(([, pid]) =>
      Number(pid)
    );
  } catch {
    return [];
  }
}

Deno.test("a server that takes long to start is named, with what it says and without secrets", async () => {
  Deno.env.set("IPYBOX_TEST_SECRET_LIFE", "the secret");
  await using folder = await TempFolder.create();
  const told: string[] = [];
  const hang = "echo one moment >&2; cat > /dev/null";
  const params = { command: "sh", args: ["-c", hang, "${IPYBOX_TEST_SECRET_LIFE}"] };
  await using runner = await ToolRunner.start({
    servers: { slow: params },
    approval: "allow",
    connectTimeoutMs: 7_000,
    log: { ...silentLogger, info: (message) => told.push(message) }, // no warning: it may be normal
  });
  const call = runner.run("slow", "count", {});
  const downloaded = startDownloaded(folder.path);
  await assertRejects(
    () => call,
    ToolCallError,
    "within 7 s. If this machine is slow or busy, try",
  );
  Deno.env.delete("IPYBOX_TEST_SECRET_LIFE");
  const [message = "", ...others] = told.filter((line) => line.includes("starting"));
  assertEquals(others, []);
  const words = [params.command, ...params.args].join(" ");
  const state = "is still starting (limit: 7 s)";
  assertEquals(message, `MCP server "slow" ${state}: ${words}\none moment`);
  assert(!message.includes("the secret"));
  assertMatch(await downloaded, /^MCP server "x" is still starting \(limit: 180 s\): /);
});

/** What is said of a server that a package runner may have to download. */
async function startDownloaded(folder: string): Promise<string> {
  const runner = `${folder}/npx`;
  await Deno.writeTextFile(runner, "#!/bin/sh\nsleep 6\n", { mode: 0o755 });
  const told: string[] = [];
  const log = { ...silentLogger, info: (message: string) => told.push(message) };
  await assertRejects(() => connectMcp("x", { command: runner }, { log }));
  return told.join("\n");
}

Deno.test("a server is started by its first call, once, also for many at once", async () => {
  await using folder = await TempFolder.create();
  const journal = `${folder.path}/journal`;
  await using runner = await start({ raw: rawServer("normal", journal) });
  assertEquals(starts(journal).length, 0);
  const counts = await Promise.all(Array.from({ length: 20 }, () => text(runner, "raw", "count")));
  assertEquals(
    counts.map(Number).sort((a, b) => a - b),
    Array.from({ length: 20 }, (_, n) => n + 1),
  );
  assertEquals(starts(journal).length, 1);
  const lists = (await Deno.readTextFile(journal)).match(/^tools\/list$/gm);
  assertEquals(lists?.length, 1, "one list serves all calls");
});

Deno.test("a server that died is started again by the next call", async () => {
  await using folder = await TempFolder.create();
  const journal = `${folder.path}/journal`;
  await using runner = await start({ raw: rawServer("normal", journal) });
  for (let round = 0; round < 3; round++) {
    const error = await assertRejects(() => runner.run("raw", "die"), ToolCallError);
    assertEquals(error.type, "server_died");
    assertEquals(await text(runner, "raw", "count"), "1");
  }
  assertEquals(starts(journal).length, 4);
});

Deno.test("the time to start that a registration gives counts at every start", async () => {
  const raw = rawServer();
  const words = [raw.command, ...raw.args ?? []].map((word) => `'${word}'`).join(" ");
  const slow: ServerParams = { command: "sh", args: ["-c", `sleep 1; exec ${words}`] };
  const patient: ServerParams = { ...slow, connectTimeoutMs: 60_000 };
  await using runner = await start({ slow, patient }, 500);
  const error = await assertRejects(() => runner.run("slow", "count"), ToolCallError);
  assertEquals(
    error.message,
    'MCP server "slow" did not complete the MCP handshake within 0.5 s. If this machine is ' +
      "slow or busy, try again; if the server needs longer, register it with --connect-timeout SECONDS",
  );
  assert((await runner.listTools("patient")).length > 0);
  await assertRejects(() => runner.run("patient", "die"), ToolCallError);
  assertEquals(await text(runner, "patient", "count"), "1");
  await runner.reset();
  assertEquals(await text(runner, "patient", "count"), "1");
});

Deno.test("one warning says that a server died or does not start, however many calls wait for it", async () => {
  const exits = ["-c", "read line; echo no key >&2; exit 3"];
  const told: string[] = [];
  await using runner = await ToolRunner.start({
    servers: {
      raw: rawServer(),
      broken: { command: "sh", args: exits },
      // Code is not told why: what is filled in may be a secret.
      hidden: { command: "sh", args: [...exits, "${IPYBOX_TEST_UNSET:-x}"] },
      remote: { url: "http://127.0.0.1:9/mcp" },
      scheme: { url: "ftp://127.0.0.1/${IPYBOX_TEST_UNSET:-x}" },
    },
    approval: "allow",
    log: { ...silentLogger, warn: (message) => void told.push(message) },
  });
  const failures = async (server: string, calls: readonly Promise<unknown>[]) => {
    const ends = await Promise.allSettled(calls);
    for (const end of ends) assert(end.status === "rejected" && `${end.reason}`.includes(server));
    return told.splice(0);
  };
  await text(runner, "raw", "count");
  const sleeping = Array.from({ length: 10 }, () => runner.run("raw", "sleep", { ms: 60_000 }));
  assertEquals(await failures("raw", [...sleeping, runner.run("raw", "die")]), [
    'MCP server "raw" died. Last lines of its stderr:\nlast words\n',
  ]);
  const reasons = {
    broken: /"broken" exited with code 3[^]*no key/,
    hidden: /"hidden" exited with code 3[^]*no key/,
    remote: /Cannot reach MCP server "remote" at http:\/\/127.0.0.1:9\/mcp/,
    scheme: /"url" must be an http or https address/,
  };
  for (const [server, reason] of Object.entries(reasons)) {
    const starting = Array.from({ length: 5 }, () => runner.run(server, "count"));
    const [message = "", ...others] = await failures(server, starting);
    // No call waits for what fails immediately
    assertEquals(server === "scheme" ? others.filter((other) => other !== message) : others, []);
    assertMatch(message, reason);
  }
  await assertRejects(() => runner.run("raw", "die"), ToolCallError);
  assertEquals(told.length, 1); // another death
});

Deno.test("a server that hangs delays no other", async () => {
  await using runner = await start({ slow: rawServer("hang"), raw: rawServer() }, 60_000);
  const gaveUp = new AbortController();
  const hanging = runner.run("slow", "count", {}, { signal: gaveUp.signal });
  assertEquals(await text(runner, "raw", "count"), "1");
  gaveUp.abort();
  const error = await assertRejects(() => hanging, ToolCallError);
  assertEquals(error.type, "cancelled");
});

Deno.test("registering a server anew takes effect at once", async () => {
  await using folder = await TempFolder.create();
  const journal = `${folder.path}/journal`;
  await using runner = await start({ raw: rawServer("normal", journal) });
  assertEquals(await text(runner, "raw", "count"), "1");
  const [first] = starts(journal);
  await runner.registerServer("raw", { ...rawServer("normal", journal), env: { NEW: "yes" } });
  assertEquals(JSON.parse(await text(runner, "raw", "env")).NEW, "yes");
  await until(async () => first !== undefined && !await isAlive(first));
});

Deno.test("a server that was removed is stopped and unknown", async () => {
  await using folder = await TempFolder.create();
  const journal = `${folder.path}/journal`;
  await using runner = await start({ raw: rawServer("normal", journal) });
  await text(runner, "raw", "count");
  assertEquals(await runner.unregisterServer("raw"), true);
  const [pid] = starts(journal);
  assert(pid !== undefined && !await isAlive(pid));
  const error = await assertRejects(() => runner.run("raw", "count"), ToolCallError);
  assertEquals(error.type, "unknown_server");
});

Deno.test("reset() cancels what runs, stops all servers, and calls work again", async () => {
  await using folder = await TempFolder.create();
  const journal = `${folder.path}/journal`;
  await using runner = await start({ raw: rawServer("normal", journal) });
  await text(runner, "raw", "count");
  const running = assertRejects(() => runner.run("raw", "sleep", { ms: 60_000 }), ToolCallError);
  await until(async () => (await Deno.readTextFile(journal)).includes("tools/call\ntools/call"));
  await runner.reset();
  assertEquals((await running).type, "cancelled");
  const [pid] = starts(journal);
  assert(pid !== undefined && !await isAlive(pid));
  assertEquals(await text(runner, "raw", "count"), "1");
});

Deno.test("the end leaves no process, also of servers that are being started", async () => {
  await using folder = await TempFolder.create();
  const journal = `${folder.path}/journal`;
  const runner = await start({ raw: rawServer("hang", journal) });
  const call = assertRejects(() => runner.run("raw", "count"), ToolCallError);
  await until(() => starts(journal).length === 1);
  await runner[Symbol.asyncDispose]();
  assertEquals((await call).type, "cancelled");
  for (const pid of starts(journal)) assert(!await isAlive(pid));
});

Deno.test("a remote server that restarted is connected to again", async () => {
  const params = fixtureServer("sdk_v2_http_server.ts");
  const first = await startHttpServer(params, /^\d+\n/);
  await using runner = await start({ modern: { url: `http://127.0.0.1:${first.port}/mcp` } });
  assertEquals(await text(runner, "modern", "echo", { value: 1 }), "1");
  await first[Symbol.asyncDispose]();
  const error = await assertRejects(
    () => runner.run("modern", "echo", { value: 1 }),
    ToolCallError,
  );
  assertEquals(error.type, "server_unreachable");
  await using second = await startHttpServer(params, /^\d+\n/);
  await runner.registerServer("modern", { url: `http://127.0.0.1:${second.port}/mcp` });
  assertEquals(await text(runner, "modern", "echo", { value: 2 }), "2");
});

Deno.test("ToolRunner.run() takes what JSON can express and nothing else", async () => {
  await using runner = await start({ raw: rawServer() });
  const echoed = await text(runner, "raw", "echo", { id: 2n ** 64n, when: new Date(0) });
  assert(
    echoed.includes('"arguments":{"id":18446744073709551616,"when":"1970-01-01T00:00:00.000Z"}'),
  );
  await assertRejects(() => runner.run("raw", "echo", { a: NaN }), TypeError);
});
