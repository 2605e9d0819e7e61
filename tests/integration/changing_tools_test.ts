/** Servers whose tools change while code runs: its API follows, and the code is told. */
import {
  assert,
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { CodeExecutionError } from "../../src/base/errors.ts";
import type { CodeExecutor } from "../../src/executor/code_executor.ts";
import { TestExecutor } from "../support/executor.ts";
import { fixtureServer, rawServer, startHttpServer } from "../support/mcp.ts";
import { McpHost } from "../support/mcp_client.ts";
import { stepsOf } from "../support/steps.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { until } from "../support/wait.ts";

const DEFINE = `
def define(name, description="New.", **more):
    tool = {"name": name, "description": description, "inputSchema": {"type": "object"}}
    return CLIENT.run_sync("define", {"tool": tool, **more}).text
`;

interface Run {
  readonly text: string;
  readonly notes: readonly string[];
}

async function run(executor: CodeExecutor, code: string): Promise<Run> {
  const notes: string[] = [];
  let text = "";
  for await (const event of executor.stream(code, { timeoutMs: 60_000 })) {
    if (event.type === "approval") await event.request.accept();
    if (event.type === "note") notes.push(event.text);
    if (event.type === "result") text = event.result.text ?? "";
  }
  return { text, notes };
}

Deno.test("tools that appear, change and go while code runs", async (t) => {
  await using test = await TestExecutor.start();
  const { executor, workspace } = test;
  const step = stepsOf(t);
  await executor.registerServer("raw", rawServer());
  await run(executor, `from mcptools.raw import CLIENT, echo\n${DEFINE}`);

  await step("a new tool can be imported in the next line, and the cell says so", async () => {
    const { text, notes } = await run(
      executor,
      'define("new_one")\nfrom mcptools.raw import new_one\nprint(new_one.run())',
    );
    assertEquals(text, "this is new_one");
    assertEquals(notes, [
      '[ipybox] The tools of MCP server "raw" changed; mcptools.raw has new: new_one',
    ]);
    assertEquals((await run(executor, "1")).notes, []);
  });

  await step("a tool that changed is told, and imported anew by reload()", async () => {
    const { notes } = await run(executor, 'define("echo", description="Another one.")');
    assertMatch(notes[0] ?? "", /mcptools\.raw has changed \(importlib\.reload\(\) .*\): echo$/);
    const { text } = await run(
      executor,
      "import importlib\nprint(importlib.reload(echo).run.__doc__.strip())",
    );
    assertEquals(text, "Another one.");
  });

  await step("the error of a call that comes too late names the tools that there are", async () => {
    await run(executor, 'define("new_two")\ndefine("new_mild")\nfrom mcptools.raw import new_mild');
    const remove = (tool: string) =>
      run(executor, `CLIENT.run_sync("undefine", {"tool": "${tool}"})`);
    const { notes } = await remove("new_one");
    assertMatch(notes[0] ?? "", /mcptools\.raw has gone: new_one$/);
    const error = await assertRejects(() => run(executor, "new_one.run()"), CodeExecutionError);
    assertStringIncludes(
      error.message,
      `MCP server "raw" lists no tool 'new_one'; the closest names are: 'new_two'`,
    );
    assertStringIncludes(error.message, "no such tool");
    await remove("new_mild");
    const mild = await assertRejects(() => run(executor, "new_mild.run()"), CodeExecutionError);
    assertEquals(mild.ename, "ToolError");
    assertStringIncludes(mild.message, "lists no tool 'new_mild'; the closest names are: ");
  });

  await step("a server that is started again has its first tools again", async () => {
    await assertRejects(() => run(executor, 'CLIENT.run_sync("die")'), CodeExecutionError);
    const { notes } = await run(executor, 'CLIENT.run_sync("count")');
    assertMatch(notes[0] ?? "", /has changed .*: echo; gone: new_two$/);
  });

  await step("a change between cells is told in the next one", async () => {
    await using folder = await TempFolder.create();
    const moment = `${folder.path}/later`;
    const first = await run(executor, `define("new_later", after="${moment}")`);
    assertEquals(first.notes, []);
    await Deno.writeTextFile(moment, "");
    const listed = `${workspace}/mcptools/raw/schema.json`; // not there while it is exchanged
    await until(async () =>
      (await Deno.readTextFile(listed).catch(() => "")).includes("new_later")
    );
    const { notes } = await run(executor, "from mcptools.raw import new_later");
    assertMatch(notes.join(), /mcptools\.raw has new: new_later/);
  });

  await step("code can write nothing that an API is generated from", async () => {
    const { text } = await run(
      executor,
      `
import pathlib
for name in ("raw/evil.py", "raw/schema.json", "raw/echo.py", "evil/__init__.py", "ipybox_runtime/models.py"):
    try:
        path = pathlib.Path("mcptools", name)
        path.parent.mkdir(exist_ok=True)
        path.write_text("evil = 1")
    except OSError as error:
        print(type(error).__name__, error.errno)
define("new_three")`,
    );
    assertEquals(text.split("\n").filter((line) => line.startsWith("OSError 30")).length, 5, text);
    const schema = await Deno.readTextFile(`${workspace}/mcptools/raw/schema.json`);
    assert(schema.includes("new_three") && !schema.includes("evil"));
  });

  await step(
    "a server that changes with each call is followed, and many tools are told in short",
    async () => {
      const code = 'for i in range(12):\n    define(f"new_{i}")';
      const { notes } = await run(executor, code);
      assertMatch(
        notes.join("\n"),
        /^\[ipybox\] [^\n]* has new: (new_\d+, ){9}new_\d+ and \d+ more$/,
      );
    },
  );
});

Deno.test("a remote server of the newer era is followed, too", async () => {
  await using http = await startHttpServer(fixtureServer("sdk_v2_http_server.ts"), /^\d+\n/);
  await using test = await TestExecutor.start({ sandbox: false });
  const { executor } = test;
  await executor.registerServer("modern", { url: `http://127.0.0.1:${http.port}/mcp` });
  await run(executor, "from mcptools.modern import CLIENT");
  const notes: string[] = [];
  await until(async () => {
    notes.push(...(await run(executor, 'CLIENT.run_sync("grow")')).notes);
    return notes.length > 0;
  });
  assertMatch(notes[0] ?? "", /mcptools\.modern has new: grown/);
  assertEquals((await run(executor, "from mcptools.modern import grown")).text, "");
});

Deno.test("the model of an MCP client is told, and finds new tools", async () => {
  await using workspace = await TempFolder.create();
  await using host = await McpHost.start({
    args: ["--workspace", workspace.path, "--approve", "allow"],
  });
  const cell = async (code: string) => (await host.call("execute_ipython_cell", { code })).text;
  await host.call("register_mcp_server", { server_name: "raw", server_params: rawServer() });
  await cell(`from mcptools.raw import CLIENT\n${DEFINE}`);
  assertEquals(
    await cell('define("new_weather", "Forecasts the weather.")'),
    "'defined'\n\n" +
      '[ipybox] The tools of MCP server "raw" changed; mcptools.raw has new: new_weather',
  );
  const { text } = await host.call("search_tools", { query: "weather forecast", detail: "names" });
  assertEquals(text, "raw.new_weather: Forecasts the weather.");
  const failed = await cell('define("new_wind")\n1 / 0');
  assertMatch(failed, /ZeroDivisionError: division by zero\n\n\[ipybox\] .* has new: new_wind$/s);
});
