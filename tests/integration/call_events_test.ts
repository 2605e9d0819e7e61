/** Time limits, progress, and what servers log: from a server to Python and to the application. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { CodeExecutor } from "../../src/executor/code_executor.ts";
import type { ExecutionEvent } from "../../src/executor/options.ts";
import { silentLogger } from "../../src/base/log.ts";
import type { ServerEvent } from "../../src/servers/events.ts";
import { ToolServer, type ToolServerOptions } from "../../src/calls/tool_server.ts";
import {
  fixtureServer,
  npmServer,
  pythonJson,
  rawServer,
  startHttpServer,
} from "../support/mcp.ts";
import { testPython } from "../support/python.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { until } from "../support/wait.ts";

const IMPORTS = `
import asyncio, json, threading, time
import ipybox_runtime as r
raw = r.ToolRunner("raw")
`;

async function start(options: ToolServerOptions = {}): Promise<ToolServer> {
  const servers = { raw: rawServer() };
  return await ToolServer.start({ servers, approval: "allow", log: silentLogger, ...options });
}

Deno.test("progress reaches Python before the result, also what comes with the result", async () => {
  await using server = await start();
  const found = await pythonJson(
    `${IMPORTS}
told = []
async def tell(progress):
    await asyncio.sleep(0)
    told.append(repr(progress))
assert raw.run_sync("progress", {"steps": 2}, on_progress=lambda p: told.append(repr(p))).text == "told"
asyncio.run(raw.run("progress", {"steps": 1}, on_progress=tell))
with r.call_options(on_progress=lambda p: told.append([p.progress, p.total, p.message])):
    raw.run_sync("progress", {"steps": 1})
    with r.call_options(timeout=60):
        raw.run_sync("progress", {"steps": 1})
assert raw.run_sync("progress", {"steps": 3}).text == "-"
many = []
raw.run_sync("progress", {"steps": 900}, on_progress=many.append)
assert [p.progress for p in many] == list(range(1, 901)), len(many)
print(json.dumps(told))`,
    { door: server.kernelDoor },
  );
  assertEquals(found, [
    "ToolProgress(1/2, 'step 1')",
    "ToolProgress(2/2, 'step 2')",
    "ToolProgress(1/1, 'step 1')",
    [1, 1, "step 1"],
    [1, 1, "step 1"],
  ]);
});

Deno.test("a call that takes longer than its own time limit is cancelled at the server", async () => {
  await using folder = await TempFolder.create();
  const journal = `${folder.path}/journal`;
  await using server = await start({ servers: { raw: rawServer("normal", journal) } });
  const found = await pythonJson(
    `${IMPORTS}
found = []
def attempt(run):
    try:
        run()
    except r.ToolTimeoutError as error:
        found.append([error.tool, str(error)])
attempt(lambda: raw.run_sync("sleep", {"ms": 60000}, timeout=0.2))
attempt(lambda: asyncio.run(raw.run("sleep", {"ms": 60000}, timeout=0.2)))
with r.call_options(timeout=0.2):
    attempt(lambda: raw.run_sync("sleep", {"ms": 60000}))
    assert raw.run_sync("sleep", {"ms": 300}, timeout=60).text == "slept"
assert raw.run_sync("sleep", {"ms": 1}, timeout=1e9).text == "slept"
for wrong in (0, -1, float("nan")):
    try:
        r.call_options(timeout=wrong)
    except ValueError as error:
        found.append(str(error))
print(json.dumps(found))`,
    { door: server.kernelDoor },
  );
  assertEquals(found, [
    ...Array(3).fill(["sleep", "The call took too long"]),
    ...["0", "-1", "nan"].map((value) => `Cannot use a timeout of ${value} s: it must be above 0`),
  ]);
  const journaled = async () => (await Deno.readTextFile(journal)).match(/cancelled/g)?.length;
  await until(async () => await journaled() === 3);
});

Deno.test("code cannot lengthen the application's own time limit", async () => {
  await using server = await start({ callTimeoutMs: 200 });
  const found = await pythonJson(
    `${IMPORTS}
try:
    raw.run_sync("sleep", {"ms": 60000}, timeout=60)
except r.ToolTimeoutError:
    print(json.dumps("timed out"))`,
    { door: server.kernelDoor },
  );
  assertEquals(found, "timed out");
});

Deno.test("a callback that fails cancels its call and no other", async () => {
  await using folder = await TempFolder.create();
  const journal = `${folder.path}/journal`;
  await using server = await start({ servers: { raw: rawServer("normal", journal) } });
  const found = await pythonJson(
    `${IMPORTS}
found = []
for kind in (LookupError, ConnectionResetError):  # the latter is not one of the tool server's
    def fail(progress):
        raise kind(progress.message)
    for call in (raw.run_sync, lambda *args, **more: asyncio.run(raw.run(*args, **more))):
        try:
            call("progress", {"steps": 1}, on_progress=fail)
        except Exception as error:
            found.append(repr(error))
print(json.dumps([*found, raw.run_sync("count").text]))`,
    { door: server.kernelDoor },
  );
  const failures = ["LookupError", "ConnectionResetError"].flatMap((kind) =>
    Array(2).fill(`${kind}('step 1')`)
  );
  assertEquals(found, [...failures, "1"]);
});

Deno.test("progress, logs and changed tools are events, with the call's id", async () => {
  await using server = await start({ servers: { raw: rawServer(), late: rawServer("late") } });
  const events: ServerEvent[] = [];
  {
    using _watch = server.runner.events.watch((event) => events.push(event));
    await server.runner.run("raw", "progress", { steps: 1 });
    await server.runner.run("late", "count");
    await until(() => events.some(({ type }) => type === "tools_changed"));
  }
  await server.runner.run("raw", "progress", { steps: 1 });
  const [progress, log, changed] = events;
  assert(progress?.type === "progress" && log?.type === "log");
  assertMatch(progress.callId, /^[0-9a-f-]{36}$/);
  const call = { callId: progress.callId, serverName: "raw" };
  assertEquals(progress, {
    type: "progress",
    ...call,
    toolName: "progress",
    progress: 1,
    total: 1,
    message: "step 1",
  });
  assertEquals(log, {
    type: "log",
    ...call,
    level: "warning",
    logger: "raw",
    data: { at: "the end" },
  });
  assertEquals(changed, { type: "tools_changed", serverName: "late" });
  assertEquals(events.length, 3);
});

Deno.test("a server of the newer era tells of progress and logs", async () => {
  await using http = await startHttpServer(fixtureServer("sdk_v2_http_server.ts"), /^\d+\n/);
  const servers = { modern: { url: `http://127.0.0.1:${http.port}/mcp` } };
  await using server = await start({ servers });
  const events: ServerEvent[] = [];
  using _watch = server.runner.events.watch((event) => events.push(event));
  await server.runner.run("modern", "report");
  assertEquals(events.map((event) => [event.type, event.type === "log" ? event.data : ""]), [
    ["progress", ""],
    ["log", "reporting"],
  ]);
});

Deno.test("stream() tells of the progress of calls while the code runs", async () => {
  await using folder = await TempFolder.create();
  await using executor = await CodeExecutor.start({
    workspace: folder.path,
    python: testPython(),
    sandbox: false,
    servers: { everything: npmServer("server-everything") },
    log: silentLogger,
  });
  const code = `
import ipybox_runtime as r
arguments = {"duration": 0.2, "steps": 2}
print(r.ToolRunner("everything").run_sync("trigger-long-running-operation", arguments).text)`;
  const events: ExecutionEvent[] = [];
  let callId: string | undefined;
  for await (const event of executor.stream(code, { timeoutMs: 60_000 })) {
    if (event.type === "approval") {
      callId = event.request.callId;
      await event.request.accept();
    } else if (event.type !== "log" && event.type !== "tools_changed") events.push(event);
  }
  assertEquals(events.map((event) => event.type), ["progress", "progress", "result"]);
  const [first] = events;
  assert(first?.type === "progress");
  assertEquals([first.callId, first.serverName, first.total], [callId, "everything", 2]);
});

Deno.test("stream() tells when calls begin and end, and what was decided, if events names both", async () => {
  await using workspace = await TempFolder.create();
  await using executor = await CodeExecutor.start({
    workspace: workspace.path,
    servers: { raw: rawServer() },
    sandbox: false,
    python: testPython(),
    log: silentLogger,
  });
  const code = `${IMPORTS}
raw.run_sync("count")
try: raw.run_sync("echo")
except r.ApprovalRejectedError: pass`;
  const told: unknown[] = [];
  let callId: string | undefined;
  for await (const event of executor.stream(code, { events: ["call_started", "call_ended"] })) {
    if (event.type === "approval") {
      callId = event.request.callId;
      if (event.request.toolName === "count") await event.request.accept();
      else await event.request.reject("not that");
    } else if (event.type === "call_started") {
      told.push([event.kind, event.serverName, event.toolName]);
    } else if (event.type === "call_ended") {
      assertEquals(event.callId, callId);
      assert(event.durationMs >= (event.waitMs ?? NaN));
      told.push([event.decision, event.by, event.reason, event.status]);
    }
  }
  assertEquals(told, [
    ["tool", "raw", "count"],
    ["allow", "approver", undefined, "ok"],
    ["tool", "raw", "echo"],
    ["deny", "approver", "not that", "approval_rejected"],
  ]);
  for await (const { type } of executor.stream(code)) {
    assert(type !== "call_started" && type !== "call_ended"); // only who asks is told
    if (type === "approval") break;
  }
});
