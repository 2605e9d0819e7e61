/** Both halves of the wire against each other: real Python, the tool server, real MCP servers. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import type { ApprovalRequest } from "../../src/approval/request.ts";
import type { ToolErrorType } from "../../src/base/errors.ts";
import { silentLogger } from "../../src/base/log.ts";
import { ToolServer, type ToolServerOptions } from "../../src/calls/tool_server.ts";
import { fixtureServer, python, pythonJson, rawServer } from "../support/mcp.ts";
import { testIf } from "../support/skip.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { until } from "../support/wait.ts";

const IMPORTS = `
import asyncio, datetime, enum, json, os, sys, threading, time, uuid, pathlib, decimal
import ipybox_runtime as r
raw = r.ToolRunner("raw")
`;

async function start(options: ToolServerOptions = {}): Promise<ToolServer> {
  const servers = { raw: rawServer(), v1: fixtureServer("sdk_v1_server.ts") };
  return await ToolServer.start({ servers, approval: "allow", log: silentLogger, ...options });
}

const ERROR_TYPES: Record<ToolErrorType, true> = {
  tool_error: true,
  protocol_error: true,
  invalid_arguments: true,
  approval_rejected: true,
  approval_unavailable: true,
  approval_timeout: true,
  tool_timeout: true,
  server_died: true,
  server_unreachable: true,
  login_required: true,
  unknown_server: true,
  cancelled: true,
  outcome_unknown: true,
  tool_server_error: true,
};

Deno.test("Python and TypeScript know the same errors", async () => {
  const types = await pythonJson(`
import json
from ipybox_runtime import errors
print(json.dumps(list(errors.ERROR_TYPES)))
assert all(issubclass(c, errors.ToolCallError) for c in errors.ERROR_TYPES.values())
`);
  assertEquals(types, Object.keys(ERROR_TYPES));
});

Deno.test("the runtime imports anywhere, needs only the standard library, and explains itself", async () => {
  const message = await pythonJson(`
import sys
before = set(sys.modules)
import ipybox_runtime as r
assert not {"asyncio", "http.client", "pydantic", "requests", "inspect"} & (set(sys.modules) - before)
import json
try:
    r.ToolRunner("x").run_sync("y", {})
except r.ToolServerError as error:
    print(json.dumps([str(error), error.server, error.tool]))
`);
  assertEquals(message, [
    "Cannot call tools here: IPYBOX_TOOL_URL and IPYBOX_TOOL_TOKEN are not set, " +
    "as they are in ipybox kernels",
    "x",
    "y",
  ]);
});

Deno.test("arguments arrive at the server as Python wrote them", async () => {
  await using server = await start();
  const line = await pythonJson(
    `${IMPORTS}
class Color(enum.Enum):
    RED = "red"
class Model:
    def model_dump(self, mode, by_alias):
        return {"from": 1, "mode": mode}
text = raw.run_sync("echo", {
    "float": 1.0, "int": 1, "big": 2**70, "none": None, "true": True, "text": "\\ud800é\\n",
    "__proto__": {"a": 1}, "when": datetime.datetime(2026, 1, 2, 3, 4, 5), "color": Color.RED,
    "id": uuid.UUID(int=1), "path": pathlib.Path("a/b"), "money": decimal.Decimal("1.10"),
    "set": {1}, "tuple": (1, 2), "model": Model(),
}).text
print(json.dumps(text))`,
    { door: server.kernelDoor },
  );
  assertEquals(
    /"arguments":(.*)},"jsonrpc"/.exec(String(line))?.[1],
    '{"float":1.0,"int":1,"big":1180591620717411303424,"none":null,"true":true,' +
      '"text":"\\ud800é\\n","__proto__":{"a":1},"when":"2026-01-02T03:04:05","color":"red",' +
      '"id":"00000000-0000-0000-0000-000000000001","path":"a/b","money":"1.10",' +
      '"set":[1],"tuple":[1,2],"model":{"from":1,"mode":"json"}}',
  );
});

Deno.test("arguments that are no JSON are refused in Python", async () => {
  await using server = await start();
  const errors = await pythonJson(
    `${IMPORTS}
found = []
loop = []; loop.append(loop)
for value in (float("nan"), float("inf"), loop, object(), b"bytes", {(1, 2): 3}):
    try:
        raw.run_sync("echo", {"value": value})
    except r.InvalidArgumentsError as error:
        found.append(type(error).__name__)
print(json.dumps(found))`,
    { door: server.kernelDoor },
  );
  assertEquals(errors, Array(6).fill("InvalidArgumentsError"));
});

Deno.test("structured content comes back as any JSON value", async () => {
  await using server = await start();
  const values = await pythonJson(
    `${IMPORTS}
found = []
for text in ('{"a":1.0,"big":12345678901234567890}', "[]", "{}", "0", "null", "false", '""', "1.5"):
    result = raw.run_sync("structured", {"json": text})
    assert result.has_structured and result.structured == json.loads(text), text
    assert type(result.structured) is type(json.loads(text))
    found.append(repr(result.structured))
result = raw.run_sync("count")
assert not result.has_structured and result.structured is None
print(json.dumps(found))`,
    { door: server.kernelDoor },
  );
  assertEquals(values, [
    "{'a': 1.0, 'big': 12345678901234567890}",
    "[]",
    "{}",
    "0",
    "None",
    "False",
    "''",
    "1.5",
  ]);
});

Deno.test("every kind of content comes back as a value", async () => {
  await using server = await start();
  await using folder = await TempFolder.create();
  const found = await pythonJson(
    `${IMPORTS}
import pickle
result = r.ToolRunner("v1").run_sync("media")
text, image, audio, inner, blob, link, last = result.content
assert result.text == "first\\nlast" and isinstance(result.text, str)
assert result.text.content is result.content and pickle.loads(pickle.dumps(str(result.text)))
assert text.annotations == {"audience": ["user"], "priority": 0.5}
assert image.meta == {"k": "v"} and result.meta == {"trace": "t"}
assert image._repr_mimebundle_()["image/png"] == "iVBORw0KGgo="
assert result.text._repr_mimebundle_()["image/png"] == "iVBORw0KGgo="
path = image.save(${JSON.stringify(folder.path)} + "/image.png")
assert open(path, "rb").read() == image.data
print(json.dumps([repr(block) for block in result.content]))`,
    { door: server.kernelDoor },
  );
  assertEquals(found, [
    "TextBlock('first')",
    "ToolImage('image/png', 8 bytes)",
    "ToolAudio('audio/wav', 4 bytes)",
    "ToolResource('x://text', 'text/plain', size=5)",
    "ToolResource('x://blob', None, size=3)",
    "ResourceLink('x://link', name='link')",
    "TextBlock('last')",
  ]);
});

Deno.test("content of a kind that is newer than the runtime is not lost", async () => {
  await using server = await start();
  const found = await pythonJson(
    `${IMPORTS}
block = raw.run_sync("result", {"json": '{"content":[{"type":"hologram","depth":3}]}'}).content[0]
print(json.dumps([type(block).__name__, block.block]))`,
    { door: server.kernelDoor },
  );
  assertEquals(found, ["UnknownContent", { type: "hologram", depth: 3 }]);
});

Deno.test("No failure to start a server tells code what was filled in for its variables", async () => {
  Deno.env.set("IPYBOX_TEST_FILLED", "s3cr3t-value");
  const secret = "${IPYBOX_TEST_FILLED}";
  const servers = {
    command: { command: `/nonexistent/${secret}` },
    program: { command: `no-such-${secret}` },
    cwd: { command: "cat", cwd: `/nonexistent/${secret}` },
    path: {
      command: "no-such-program",
      env: { PATH: `/nonexistent/${secret}:relative-${secret}` },
    },
    argument: { command: "srt", args: [`--${secret}`, "cat"] },
    settings: { command: "cat", sandbox: `/nonexistent/${secret}` },
    last_words: { command: "sh", args: ["-c", "echo $T >&2; exit 3"], env: { T: secret } },
    address: { url: `http://127.0.0.1:9/mcp?key=${secret}` },
    scheme: { url: `ftp://u:${secret}@127.0.0.1/` },
    header: { url: "http://127.0.0.1:9/mcp", headers: { "X-Y": `${secret}\u0001\n` } },
    known: { command: "no-such-program", env: { TOKEN: secret } },
  };
  try {
    await using server = await start({ servers });
    const found = await pythonJson(
      `${IMPORTS}
found = {}
for name in json.loads(${JSON.stringify(JSON.stringify(Object.keys(servers)))}):
    try:
        r.ToolRunner(name).run_sync("x", {})
    except r.ServerUnreachableError as error:
        found[name] = repr([str(error), error.__dict__])
print(json.dumps(found))`,
      { door: server.kernelDoor },
    ) as Record<string, string>;
    assertEquals(Object.keys(found), Object.keys(servers));
    for (const [name, text] of Object.entries(found)) {
      assertEquals(text.includes("s3cr3t"), false, `${name}: ${text}`);
    }
    // What cannot quote a variable still says why.
    assertStringIncludes(found.known ?? "", "no-such-program is not on the PATH");
  } finally {
    Deno.env.delete("IPYBOX_TEST_FILLED");
  }
});

Deno.test("each failure is an exception of its own, with what is known of it", async () => {
  const servers = {
    raw: rawServer(),
    v1: fixtureServer("sdk_v1_server.ts"),
    gone: { command: "no-such-command", args: ["secret"] },
    unset: { command: "x", env: { A: "${IPYBOX_TEST_UNSET}" } },
    remote: { url: "http://127.0.0.1:9/mcp/secret" },
  };
  await using server = await start({ servers, callTimeoutMs: 1000 });
  const found = await pythonJson(
    `${IMPORTS}
found = []
def attempt(server, tool, arguments={}):
    try:
        r.ToolRunner(server).run_sync(tool, arguments)
    except r.ToolCallError as error:
        assert (error.server, error.tool) == (server, tool)
        assert "secret" not in str(error)
        found.append([type(error).__name__, getattr(error, "code", None), getattr(error, "exit_code", None)])
        return error
failed = attempt("v1", "divide", {"a": 1, "b": 0})
assert str(failed) == "division by zero" and failed.content[0].text == "division by zero"
failed = attempt("v1", "mismatch")
assert failed.structured is None
attempt("raw", "fail", {"code": -32602})
protocol = attempt("raw", "fail", {"code": -1})
assert protocol.data == {"a": 1.0}
attempt("raw", "sleep", {"ms": 60000})
attempt("raw", "die", {"code": 5})
attempt("gone", "x")
unset = attempt("unset", "x")
assert "\${IPYBOX_TEST_UNSET}" in str(unset)
attempt("remote", "x")
attempt("nowhere", "x")
attempt("raw", "result", {"json": '{"content":[{"type":"image","data":"!","mimeType":"x"}]}'})
print(json.dumps(found))`,
    { door: server.kernelDoor },
  );
  assertEquals(found, [
    ["ToolError", null, null],
    ["ToolError", null, null],
    ["InvalidArgumentsError", -32602, null],
    ["ToolProtocolError", -1, null],
    ["ToolTimeoutError", null, null],
    ["ServerDiedError", null, 5],
    ["ServerUnreachableError", null, null],
    ["ServerUnreachableError", null, null],
    ["ServerUnreachableError", null, null],
    ["UnknownServerError", null, null],
    ["ToolProtocolError", null, null],
  ]);
});

Deno.test("calls run together from tasks and from threads", async () => {
  await using server = await start();
  const seconds = await pythonJson(
    `${IMPORTS}
raw.run_sync("count")
async def tasks():
    results = await asyncio.gather(*(raw.run("sleep", {"ms": 200}) for _ in range(20)))
    assert [result.text for result in results] == ["slept"] * 20
started = time.perf_counter()
asyncio.run(tasks())
asyncio.run(tasks())
threads = [threading.Thread(target=raw.run_sync, args=("sleep", {"ms": 200})) for _ in range(20)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(json.dumps(time.perf_counter() - started))`,
    { door: server.kernelDoor },
  );
  assert(Number(seconds) < 6, `3 times 20 calls of 200 ms took ${seconds} s: one after the other?`);
});

Deno.test("a call that is interrupted or whose task is cancelled is cancelled at the server", async () => {
  await using folder = await TempFolder.create();
  const journal = `${folder.path}/journal`;
  await using server = await start({ servers: { raw: rawServer("normal", journal) } });
  const cancellations = async () =>
    (await Deno.readTextFile(journal).catch(() => "")).split("notifications/cancelled").length - 1;
  const calls = async () =>
    (await Deno.readTextFile(journal).catch(() => "")).split("tools/call").length - 1;

  const interrupted = python(
    `${IMPORTS}
try:
    raw.run_sync("sleep", {"ms": 60000})
except KeyboardInterrupt:
    assert raw.run_sync("count").text == "1"
    print("interrupted")`,
    {
      door: server.kernelDoor,
      onStart: async (child) => {
        await until(async () => await calls() === 1);
        child.kill("SIGINT");
      },
    },
  );
  assertMatch((await interrupted).stdout, /interrupted/);
  await until(async () => await cancellations() === 1);

  const cancelled = await python(
    `${IMPORTS}
async def main():
    try:
        await asyncio.wait_for(raw.run("sleep", {"ms": 60000}), 0.3)
    except asyncio.TimeoutError:
        print((await raw.run("count")).text)
asyncio.run(main())`,
    { door: server.kernelDoor },
  );
  assertEquals(cancelled.stdout, "2\n", cancelled.stderr);
  await until(async () => await cancellations() === 2);
});

Deno.test("a child that was forked does not speak on its parent's connection", async () => {
  await using server = await start();
  const found = await pythonJson(
    `${IMPORTS}
raw.run_sync("count")
pid = os.fork()
if pid == 0:
    ok = all(raw.run_sync("echo", {"child": n}).text.find('"child":%d' % n) > 0 for n in range(50))
    os._exit(0 if ok else 1)
ok = all(raw.run_sync("echo", {"parent": n}).text.find('"parent":%d' % n) > 0 for n in range(50))
print(json.dumps([ok, os.waitpid(pid, 0)[1]]))`,
    { door: server.kernelDoor },
  );
  assertEquals(found, [true, 0]);
});

Deno.test("any number of calls can be made together", async () => {
  await using server = await start();
  const found = await pythonJson(
    `${IMPORTS}
from concurrent.futures import ThreadPoolExecutor
async def main():
    return await asyncio.gather(*(raw.run("echo", {"n": n}) for n in range(500)))
answers = asyncio.run(main())
assert all('"n":%d' % n in answer.text for n, answer in enumerate(answers))
with ThreadPoolExecutor(300) as pool:
    answers = list(pool.map(lambda n: raw.run_sync("echo", {"n": n}), range(300)))
assert all('"n":%d' % n in answer.text for n, answer in enumerate(answers))
print(json.dumps("all"))`,
    { door: server.kernelDoor },
  );
  assertEquals(found, "all");
});

Deno.test("kept connections that the server has closed are replaced", async () => {
  await using server = await start();
  const found = await pythonJson(
    `${IMPORTS}
from ipybox_runtime import session
raw.run_sync("count")
for stream in session.default_session()._idle:
    stream.socket.shutdown(2)
print(json.dumps(raw.run_sync("count").text))`,
    { door: server.kernelDoor },
  );
  assertEquals(found, "2");
});

Deno.test("a wrong token and a closed door are explained", async () => {
  const server = await start();
  const door = { ...server.kernelDoor, token: "wrong" };
  const program = `${IMPORTS}
try:
    raw.run_sync("count")
except r.ToolServerError as error:
    print(json.dumps(str(error)))`;
  assertEquals(
    await pythonJson(program, { door }),
    "The tool server refused the request: Wrong token",
  );
  await server[Symbol.asyncDispose]();
  assertMatch(String(await pythonJson(program, { door })), /^Cannot reach the tool server: /);
});

const oldest = await oldestPython();

testIf(oldest !== undefined, "there is no Python 3.9 here", {
  name: "the runtime works on the oldest Python that it promises",
  fn: async () => {
    await using server = await start();
    const found = await pythonJson(
      `${IMPORTS}
async def main():
    return (await raw.run("count")).text
print(json.dumps([asyncio.run(main()), raw.run_sync("count").text]))`,
      { door: server.kernelDoor, ...(oldest === undefined ? {} : { command: oldest }) },
    );
    assertEquals(found, ["1", "2"]);
  },
});

Deno.test("what was approved is what runs, and what was refused does not", async () => {
  await using server = await start({ approval: "ask", approvalTimeoutMs: 300 });
  const asked: string[] = [];
  const decide = async (request: ApprovalRequest): Promise<void> => {
    asked.push(`${request} ${request.annotations?.title ?? "-"}`);
    if (request.toolArgs.n === 1) await request.accept();
    if (request.toolArgs.n === 2) await request.reject("not that one");
    if (request.toolArgs.n === 3) await request.accept({ arguments: { n: 30 } });
  };
  using _approver = server.runner.channel.attach(decide);
  const found = await pythonJson(
    `${IMPORTS}
found = []
for n in (1, 2, 3, 4):
    try:
        found.append(json.loads(raw.run_sync("echo", {"n": n}).text)["params"]["arguments"])
    except r.ToolCallError as error:
        found.append([type(error).__name__, error.reason, str(error)])
print(json.dumps(found))`,
    { door: server.kernelDoor },
  );
  assertEquals(found, [
    { n: 1 },
    [
      "ApprovalRejectedError",
      "not that one",
      "raw.echo was refused: not that one",
    ],
    { n: 30 },
    [
      "ApprovalTimeoutError",
      "No decision within 0.3 s",
      "raw.echo was not approved in time: No decision within 0.3 s",
    ],
  ]);
  assertEquals(asked, [1, 2, 3, 4].map((n) => `raw.echo(n=${n}) Echo`));
});

Deno.test("without an approver a call is refused at once", async () => {
  await using server = await start({ approval: "ask" });
  const found = await pythonJson(
    `${IMPORTS}
try:
    raw.run_sync("count")
except r.ApprovalRejectedError as error:
    print(json.dumps([type(error).__name__, error.reason]))`,
    { door: server.kernelDoor },
  );
  assertEquals(found, ["ApprovalUnavailableError", "Approval channel not connected"]);
});

/** The oldest Python that the runtime supports, where this machine has it. */
async function oldestPython(): Promise<string | undefined> {
  const command = "python3.9";
  try {
    const { success } = await new Deno.Command(command, { args: ["--version"] }).output();
    return success ? command : undefined;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}
