/** Resources, prompts and completion, from Python to real servers. */
import { callDoor } from "../support/door.ts";
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { generateMcpSources } from "../../src/apigen/generate.ts";
import { ToolCallError } from "../../src/base/errors.ts";
import { silentLogger } from "../../src/base/log.ts";
import { ToolServer, type ToolServerOptions } from "../../src/calls/tool_server.ts";
import {
  fixtureServer,
  npmServer,
  pythonJson,
  rawServer,
  startHttpServer,
} from "../support/mcp.ts";
import { TempFolder } from "../support/temp_folder.ts";

const IMPORTS = `
import asyncio, json, sys
import ipybox_runtime as r
everything = r.ToolRunner("everything")
`;

async function start(options: ToolServerOptions = {}): Promise<ToolServer> {
  const servers = { everything: npmServer("server-everything"), raw: rawServer() };
  return await ToolServer.start({ servers, approval: "allow", log: silentLogger, ...options });
}

Deno.test("resources are listed and read, prompts are listed and filled in", async () => {
  await using server = await start();
  const found = await pythonJson(
    `${IMPORTS}
resources, prompts = everything.resources, everything.prompts
listed = resources.list()
assert len(listed) >= 7 and all(isinstance(link, r.ResourceLink) for link in listed), listed
first = listed[0].read()
assert first.contents[0].uri == listed[0].uri and first.text and first.data == first.text.encode()
assert asyncio.run(resources.read_async(listed[0].uri)).text == first.text
templates = {t.uri_template for t in resources.templates()}
blob = resources.read("demo://resource/dynamic/blob/2")
assert isinstance(blob.contents[0].data, bytes) and blob.data == blob.contents[0].data
names = {p.name: [a.name for a in p.arguments] for p in prompts.list()}
assert names == {p.name: [a.name for a in p.arguments] for p in asyncio.run(prompts.list_async())}
message = prompts.get("args-prompt", city="Berlin").messages[0]
completed = prompts.complete("completable-prompt", "department", "E")
member = prompts.complete("completable-prompt", "name", "", department="Sales")
completed += resources.complete("demo://resource/dynamic/text/{resourceId}", "resourceId", "3")
print(json.dumps([sorted(templates), names, message.role, str(message.content), completed, member]))`,
    { door: server.kernelDoor },
  );
  assertEquals(found, [
    ["demo://resource/dynamic/blob/{resourceId}", "demo://resource/dynamic/text/{resourceId}"],
    {
      "args-prompt": ["city", "state"],
      "completable-prompt": ["department", "name"],
      "resource-prompt": ["resourceType", "resourceId"],
      "simple-prompt": [],
    },
    "user",
    "What's weather in Berlin?",
    ["Engineering", "3"],
    ["David", "Eve", "Frank"],
  ]);
});

Deno.test("a resource link of a result reads itself", async () => {
  await using server = await start();
  const text = await pythonJson(
    `${IMPORTS}
links = [b for b in everything.run_sync("get-resource-links", {"count": 2}).content
         if isinstance(b, r.ResourceLink)]
print(json.dumps("".join(link.read().text for link in links)))`,
    { door: server.kernelDoor },
  );
  assertMatch(String(text), /resource/i);
});

Deno.test("a server without resources and prompts has none, and says so when asked for one", async () => {
  await using server = await start();
  const found = await pythonJson(
    `${IMPORTS}
raw = r.ToolRunner("raw")
assert raw.resources.list() == raw.resources.templates() == raw.prompts.list() == []
found = []
for ask in (lambda: raw.resources.read("x://y"), lambda: everything.resources.read("x://y"),
            lambda: everything.prompts.get("args-prompt", city=1),
            lambda: r.ToolRunner("nowhere").prompts.list()):
    try:
        ask()
    except r.ToolCallError as error:
        found.append([type(error).__name__, error.tool])
print(json.dumps(found))`,
    { door: server.kernelDoor },
  );
  assertEquals(found, [
    ["ToolProtocolError", "resources/read"],
    ["InvalidArgumentsError", "resources/read"],
    ["InvalidArgumentsError", null],
    ["UnknownServerError", "prompts/list"],
  ]);
});

Deno.test("nobody is asked about a server that is not registered", async () => {
  await using server = await start({ approval: "ask" });
  using _approver = server.runner.channel.attach((request) => {
    throw new Error(`was asked about ${request}`);
  });
  const request = {
    serverName: "other\u001b[2K",
    method: "resources/read",
    params: { uri: "x://y" },
  } as const;
  const error = await assertRejects(() => server.runner.catalog(request), ToolCallError);
  assertEquals(error.type, "unknown_server");
});

Deno.test("reading is approved by its own switch, and an approver may edit it", async () => {
  await using server = await start({ approval: { tools: "deny", resources: "ask" } });
  const asked: string[] = [];
  using _approver = server.runner.channel.attach(async (request) => {
    asked.push(`${request.kind} ${request}`);
    if (request.toolArgs.uri === "demo://resource/dynamic/text/1") {
      await request.accept({ arguments: { uri: "demo://resource/dynamic/text/2" } });
    } else await request.reject("no");
  });
  const found = await pythonJson(
    `${IMPORTS}
found = [bool(everything.resources.list())]
found.append(everything.resources.read("demo://resource/dynamic/text/1").contents[0].uri)
for ask in (lambda: everything.resources.read("x://y"), lambda: everything.prompts.get("p", a="b"),
            lambda: everything.run_sync("echo", {"message": "x"})):
    try:
        ask()
    except r.ApprovalRejectedError as error:
        found.append(error.reason)
print(json.dumps(found))`,
    { door: server.kernelDoor },
  );
  assertEquals(found, [
    true,
    "demo://resource/dynamic/text/2",
    "no",
    "no",
    "Tool calls are denied",
  ]);
  assertEquals(asked, [
    "resource everything.resources/read(uri='demo://resource/dynamic/text/1')",
    "resource everything.resources/read(uri='x://y')",
    "resource everything.prompts/get(name='p', arguments={'a': 'b'})",
  ]);
});

Deno.test("where resources are denied, not even lists are given", async () => {
  await using server = await start({ approval: { resources: "deny" } });
  const found = await pythonJson(
    `${IMPORTS}
try:
    everything.resources.list()
except r.ApprovalRejectedError as error:
    print(json.dumps(error.reason))`,
    { door: server.kernelDoor },
  );
  assertEquals(found, "Resource requests are denied");
});

Deno.test("the door takes no other requests", async () => {
  await using server = await start();
  for (
    const [method, params] of [
      ["tools/call", { name: "x" }],
      ["logging/setLevel", { level: "debug" }],
      ["resources/read", { uri: "x", more: 1 }],
      ["resources/read", {}],
      ["prompts/get", { name: "x", arguments: { a: 1 } }],
    ] as const
  ) {
    const body = JSON.stringify({ server: "raw", method, params });
    const answer = await callDoor(server.kernelDoor, "catalog", body);
    assertEquals(Object.keys(answer ?? {}), ["refused"], method);
  }
});

Deno.test("a server of the newer era gives its resources and prompts", async () => {
  await using http = await startHttpServer(fixtureServer("sdk_v2_http_server.ts"), /^\d+\n/);
  const servers = { everything: { url: `http://127.0.0.1:${http.port}/mcp` } };
  await using server = await start({ servers });
  const found = await pythonJson(
    `${IMPORTS}
print(json.dumps([everything.resources.list()[0].read().text,
                  everything.prompts.get("hello", who="Ada").messages[0].content.text]))`,
    { door: server.kernelDoor },
  );
  assertEquals(found, ["contents", "Hello Ada"]);
});

Deno.test("generated packages offer resources and prompts", async () => {
  await using server = await start();
  await using folder = await TempFolder.create();
  const root = `${folder.path}/mcptools`;
  await generateMcpSources("everything", npmServer("server-everything"), { rootDir: root });
  const found = await pythonJson(
    `${IMPORTS}
sys.path.insert(0, ${JSON.stringify(folder.path)})
from mcptools import everything
from mcptools.everything import prompts
assert {"resources", "prompts"} <= set(dir(everything))
print(json.dumps([len(everything.resources.list()) > 0, len(prompts.list())]))`,
    { door: server.kernelDoor },
  );
  assert(Array.isArray(found));
  assertEquals(found, [true, 4]);
});
