import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { CodeExecutionError, ConfigError, McpConnectionError } from "../../src/base/errors.ts";
import type { ServerParams } from "../../src/mcp/params.ts";
import { TestExecutor } from "../support/executor.ts";
import { npmServer, rawServer } from "../support/mcp.ts";
import { stepsOf } from "../support/steps.ts";
import { filesBelow } from "../support/files.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { rejection, until } from "../support/wait.ts";

Deno.test("CodeExecutor registers MCP servers, whose tools code calls as typed functions", async (t) => {
  await using test = await TestExecutor.start();
  const { executor, workspace } = test;
  const step = stepsOf(t);

  await step("registerServer() generates a package that code can import at once", async () => {
    const tools = await executor.registerServer(
      "everything",
      npmServer("server-everything", "stdio"),
    );
    const echo = tools.find(({ tool }) => tool === "echo");
    assertEquals(echo, { tool: "echo", module: "echo", warnings: [] });
    assertEquals(executor.servers, ["everything"]);
    const { text } = await executor.execute(
      "from mcptools.everything import echo, get_sum\n" +
        "print(echo.run(message='hi'))\nprint(get_sum.run(a=1, b=2.5))",
    );
    assertEquals(text, "Echo: hi\nThe sum of 1 and 2.5 is 3.5.");
  });

  await step("a tool with an output schema gives a typed result", async () => {
    const { text } = await executor.execute(
      "from mcptools.everything import get_structured_content as weather\n" +
        "result = weather.run(location='Chicago')\n" +
        "print(type(result).__name__, type(result.temperature).__name__, result.conditions)",
    );
    assertEquals(text, "Result int Light rain / drizzle");
  });

  await step(
    "an API that was generated again is there by reload, and all of them after a reset",
    async () => {
      const tool = (description: string): ServerParams => ({
        command: Deno.execPath(),
        args: [
          "run",
          "--no-config",
          "--no-lock",
          new URL("../fixtures/mcp/echo_server.ts", import.meta.url).pathname,
          JSON.stringify({ name: "tool", description, inputSchema: { type: "object" } }),
        ],
      });
      const describe = "print(tool.run.__doc__.strip())";
      await executor.registerServer("swapped", tool("The first."));
      const first = await executor.execute(`from mcptools.swapped import tool\n${describe}`);
      assertEquals(first.text, "The first.");
      await executor.registerServer("swapped", tool("The second one."));
      const reloaded = await executor.execute(
        `import importlib\nimportlib.reload(tool)\n${describe}`,
      );
      assertEquals(reloaded.text, "The second one.");
      await executor.registerServer("swapped", tool("The third."));
      await executor.reset();
      const third = await executor.execute(`from mcptools.swapped import tool\n${describe}`);
      assertEquals(third.text, "The third.");
      const { text } = await executor.execute(
        "from mcptools.everything import echo, get_sum\nprint(echo.run(message='again'))",
      );
      assertEquals(text, "Echo: again");
    },
  );

  await step("arguments are checked before anybody is asked", async () => {
    // A dictionary that is not written out is not checked before the code runs.
    const error = await assertRejects(
      () => executor.execute("args = dict(a='one', bb=2)\nget_sum.run(args)"),
      CodeExecutionError,
      "ValidationError",
    );
    const traceback = error.message;
    assertStringIncludes(traceback, "for get_sum.run(a: float, b: float)\na\n");
    assertStringIncludes(traceback, "Required; is 'bb' meant for it?");
    // A token is about four characters; the rule and the blanks of the heading are few.
    assert(traceback.replaceAll(/-{5,}|\s+/g, " ").length < 490, traceback);
    assert(!/pydantic|site-packages|\/python/.test(traceback), traceback);
  });

  await step("completion and help show the keywords of a tool", async () => {
    const { text } = await executor.execute(`
from IPython.core.completer import provisionalcompleter
def complete(code):
    with provisionalcompleter():
        return [c.text for c in get_ipython().Completer.completions(code, len(code))]
print([name for name in complete("get_sum.run(") if name in ("a=", "b=")])
print(complete("get_sum."))
help(get_sum.run)`);
    assertStringIncludes(text ?? "", "['a=', 'b=']\n");
    assertStringIncludes(text ?? "", "['Params', 'run', 'run_async']\n");
    assertStringIncludes(text ?? "", "run(*, a: float, b: float) -> ToolText\n");
  });

  await step("server-filesystem works on the host, beyond the sandbox", async () => {
    const outside = await Deno.makeTempDir();
    await using _outside = {
      [Symbol.asyncDispose]: () => Deno.remove(outside, { recursive: true }),
    };
    const folder = await Deno.realPath(outside);
    await executor.registerServer("files", npmServer("server-filesystem", folder));
    const { text } = await executor.execute(`
from mcptools.files import list_directory, read_text_file, write_file
path = "${folder}/a.txt"
write_file.run(path=path, content="written by a tool")
print(list_directory.run(path="${folder}"))
print(read_text_file.run(path=path))
try:
    open(path)
except OSError as error:
    print("the code itself:", type(error).__name__)
`);
    assertStringIncludes(text ?? "", "[FILE] a.txt");
    assertStringIncludes(text ?? "", "written by a tool");
    assertStringIncludes(text ?? "", "the code itself: FileNotFoundError");
    assertEquals(await Deno.readTextFile(`${folder}/a.txt`), "written by a tool");
  });

  await step("what cannot be done whole is not done at all", async () => {
    const before = await Deno.readTextFile(`${workspace}/.ipybox/mcp.json`);
    await Deno.writeTextFile(`${workspace}/mcptools/obstacle`, "in the way");
    await assertRejects(
      () => executor.registerServer("obstacle", rawServer()),
      ConfigError,
      "a file",
    );
    assertEquals(await Deno.readTextFile(`${workspace}/.ipybox/mcp.json`), before);

    await Deno.writeTextFile(`${workspace}/.ipybox/mcp.json`, "no registry");
    await assertRejects(() => executor.registerServer("late", rawServer()), ConfigError);
    await assertRejects(() => Deno.lstat(`${workspace}/mcptools/late`), Deno.errors.NotFound);
    await Deno.writeTextFile(`${workspace}/.ipybox/mcp.json`, before);

    const silent = { command: "sleep", args: ["1000"] };
    const given = AbortSignal.timeout(100);
    const error = await rejection(executor.registerServer("late", silent, { signal: given }));
    assertEquals(error, given.reason);
    assertEquals(executor.servers, ["everything", "files", "swapped"]);
  });

  await step("another executor in the workspace knows them", async () => {
    await using other = await TestExecutor.start({ workspace, sandbox: false });
    assertEquals(other.executor.servers, ["everything", "files", "swapped"]);
    const { text } = await other.executor.execute(
      "from mcptools.swapped import tool\nprint('tools/call' in tool.run())",
    );
    assertEquals(text, "True");
  });
});

Deno.test("CodeExecutor.registerServer() starts the server that code calls", async (t) => {
  await using folder = await TempFolder.create();
  await Deno.writeTextFile(`${folder.path}/.env`, "IPYBOX_TEST_DOTENV=of the file\n");
  await using test = await TestExecutor.start({ workspace: folder.path, sandbox: false });
  const { executor, workspace } = test;
  const step = stepsOf(t);

  await step("and stores placeholders, not what they stand for", async () => {
    Deno.env.set("IPYBOX_TEST_KEY", "the secret");
    using _variable = { [Symbol.dispose]: () => Deno.env.delete("IPYBOX_TEST_KEY") };
    const params = {
      ...rawServer(),
      env: { KEY: "${IPYBOX_TEST_KEY}", FILE: "${IPYBOX_TEST_DOTENV}", PLAIN: "plain" },
    };

    await executor.registerServer("raw", params);
    const { text } = await executor.execute(
      "import json\nfrom ipybox_runtime import ToolRunner\n" +
        "env = json.loads(ToolRunner('raw').run_sync('env').text)\n" +
        "print(env['KEY'], '|', env['FILE'], '|', env['PLAIN'])",
    );

    assertEquals(text, "the secret | of the file | plain");
    const registry = JSON.parse(await Deno.readTextFile(`${workspace}/.ipybox/mcp.json`));
    assertEquals(registry, { mcpServers: { raw: params } });
    for (const [path, content] of await filesBelow(workspace)) {
      assert(!content.includes("the secret"), path);
    }
  });

  await step("once, and another after a reset", async () => {
    await using outside = await TempFolder.create();
    const journal = `${outside.path}/journal`;
    const starts = async () => (await Deno.readTextFile(journal)).match(/^initialize$/gm)?.length;
    const count = async () =>
      (await executor.execute("from mcptools.noted import count\nprint(count.run())")).text;

    await executor.registerServer("noted", rawServer("normal", journal));
    assertEquals([await count(), await count(), await starts()], ["1", "2", 1]);
    await executor.registerServer("noted", rawServer("normal", journal)); // the same: its state stays
    assertEquals([await count(), await starts()], ["3", 2]);
    await executor.unregisterServer("raw"); // its variable is gone
    await executor.reset();
    await until("the server runs again", async () => await starts() === 3); // no call waits for it
    assertEquals([await count(), await starts()], ["1", 3]);
  });
});

Deno.test("CodeExecutor.registerServer() that fails leaves all as it was", async (t) => {
  await using test = await TestExecutor.start({ sandbox: false, connectTimeoutMs: 2000 });
  const { executor, workspace } = test;
  await executor.registerServer("raw", rawServer());
  const before = await filesBelow(workspace);
  const words = "import sys; print('bad key', file=sys.stderr); sys.exit(4)";
  const cases: Record<
    string,
    [string, ServerParams, typeof Error | typeof McpConnectionError | typeof ConfigError, string[]]
  > = {
    "an invalid name": ["../raw", rawServer(), TypeError, ["../raw"]],
    "a keyword as name": ["class", rawServer(), TypeError, ["class"]],
    "a command that does not exist": [
      "raw",
      { command: "no-such-command" },
      McpConnectionError,
      ['"raw"', "no-such-command", "no-such-command is not on the PATH"],
    ],
    "a server that exits at once": [
      "raw",
      { command: "python3", args: ["-c", words] },
      McpConnectionError,
      ['"raw"', "code 4", "bad key"],
    ],
    "a server that never answers": ["raw", rawServer("hang"), McpConnectionError, ["2 s"]],
    "an address where nobody is": [
      "raw",
      { url: "http://127.0.0.1:1/mcp" },
      McpConnectionError,
      ["http://127.0.0.1:1/mcp"],
    ],
    "an address that is none": ["raw", { url: "nowhere" }, ConfigError, ["raw", "url"]],
    "a variable that is not set": [
      "raw",
      { command: "touch", args: [`${workspace}/started`, "${NO_SUCH_VARIABLE}"] },
      ConfigError,
      ["raw", "${NO_SUCH_VARIABLE}"],
    ],
  };
  for (const [what, [name, params, errorClass, words]] of Object.entries(cases)) {
    await t.step(what, async () => {
      const error = await assertRejects(() => executor.registerServer(name, params), errorClass);
      for (const word of words) assertStringIncludes(String(error), word);
      assertEquals(await filesBelow(workspace), before);
      assertEquals(executor.servers, ["raw"]);
    });
  }
  const { text } = await executor.execute("from mcptools.raw import count\nprint(count.run())");
  assertEquals(text, "1");
});

Deno.test("startServers starts the user's servers beside the kernel, and asks nobody about others", async () => {
  await using folder = await TempFolder.create();
  const workspace = `${folder.path}/ws`;
  await Deno.mkdir(`${workspace}/.ipybox`, { recursive: true });
  const journal = (name: string) => `${folder.path}/${name}`;
  const found = { mcpServers: { found: rawServer("normal", journal("found")) } };
  await Deno.writeTextFile(`${workspace}/.ipybox/mcp.json`, JSON.stringify(found));
  const servers = {
    broken: { command: "sh", args: ["-c", "exit 3"] },
    one: rawServer("normal", journal("one")),
    two: rawServer("normal", journal("two")),
  };
  await using test = await TestExecutor.start({ workspace, servers, startServers: "with-kernel" });
  const starts = async (name: string) =>
    (await Deno.readTextFile(journal(name)).catch(() => "")).match(/^initialize$/gm)?.length ?? 0;
  for (const name of ["one", "two"]) {
    await until(`${name} runs`, async () => await starts(name) === 1);
  }
  const code = `from ipybox_runtime import ToolRunner
print([ToolRunner(name).run_sync("count").text for name in ("one", "two")])
try: ToolRunner("broken").run_sync("count")
except Exception as error: print(error)`;
  const { text } = await test.executor.execute(code);
  const [counts, failure = ""] = text?.split("\n") ?? [];
  assertEquals([counts, await starts("one"), await starts("found")], ["['1', '1']", 1, 0]);
  assertStringIncludes(failure, 'MCP server "broken" exited with code 3');
});

Deno.test("the servers option is for one executor, and their start not part of a time limit", async () => {
  await using folder = await TempFolder.create();
  const { command, args = [] } = rawServer();
  const wait = `while [ ! -e ${folder.path}/go ]; do sleep 0.05; done; exec "$0" "$@"`;
  const servers = { raw: { command: "sh", args: ["-c", wait, command, ...args] } };
  await using test = await TestExecutor.start({ servers });
  assertEquals(test.executor.servers, ["raw"]);
  assertEquals([...(await filesBelow(`${test.workspace}/.ipybox`)).keys()], ["code-ran"]);
  await test.executor.execute("from ipybox_runtime import ToolRunner; raw = ToolRunner('raw')");
  const timeoutMs = 3000;
  const [{ text }] = await Promise.all([
    test.executor.execute("raw.run_sync('count').text", { timeoutMs }),
    (async () => {
      await new Promise((resolve) => setTimeout(resolve, timeoutMs + 500));
      await Deno.writeTextFile(`${folder.path}/go`, "");
    })(),
  ]);
  assertEquals(text, "'1'");
});
