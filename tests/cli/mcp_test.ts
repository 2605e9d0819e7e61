import {
  assert,
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { ServerRegistry } from "../../src/tool_server/server_registry.ts";
import { cliArguments } from "../support/cli.ts";
import { until } from "../support/executor.ts";
import { filesBelow } from "../support/files.ts";
import { rawServer } from "../support/mcp.ts";
import { CLIENT_KINDS, McpHost } from "../support/mcp_client.ts";
import { processesWith, untilNoneWith } from "../support/processes.ts";
import { stepsOf } from "../support/steps.ts";
import { TempCache } from "../support/temp_cache.ts";
import { TempFolder } from "../support/temp_folder.ts";

const RAW = "from ipybox_runtime import ToolRunner\nraw = ToolRunner('raw')\n";

/** The reference's tools: parameter → type and default; those without a default are required. */
const REFERENCE: Readonly<Record<string, Readonly<Record<string, readonly [string, unknown?]>>>> = {
  execute_ipython_cell: {
    code: ["string"],
    timeout: ["number", 120],
    max_output_chars: ["integer", 5000],
  },
  register_mcp_server: { server_name: ["string"], server_params: ["object"] },
  install_package: { package_name: ["string"] },
  reset: {},
};

for (const kind of CLIENT_KINDS) {
  Deno.test(`ipybox mcp serves a client of the kind ${kind}`, async (t) => {
    await using workspace = await workspaceWithServer();
    const questions: string[] = [];
    const decisions: (string | null)[] = [];
    await using host = await McpHost.start({
      kind,
      args: ["--workspace", workspace.path],
      answer: (question) => {
        questions.push(question);
        return decisions.shift() ?? null;
      },
    });
    const step = stepsOf(t);
    const asked = () => questions.splice(0);

    await step("it lists the reference's tools with their parameters and defaults", async () => {
      const tools = await host.tools();
      for (const [name, parameters] of Object.entries(REFERENCE)) {
        const tool = tools.find((candidate) => candidate.name === name);
        const { properties = {}, required = [] } = tool?.inputSchema ?? {};
        for (const [parameter, [type, value]] of Object.entries(parameters)) {
          assertEquals(properties[parameter]?.type, type, `${name}.${parameter}`);
          assertEquals(properties[parameter]?.default, value, `${name}.${parameter}`);
          assertEquals(required.includes(parameter), value === undefined, `${name}.${parameter}`);
        }
        assert((tool?.description ?? "").length > 50, name);
      }
    });

    await step("cells share their state", async () => {
      await host.execute("a = 40");
      assertEquals(await host.execute("print('text')\na + 2"), "text\n42");
    });

    await step("an exception is a tool error with its traceback and the text before", async () => {
      const { isError, text } = await host.call("execute_ipython_cell", {
        code: "print('before')\n1 / 0",
      });
      assertEquals(isError, true);
      assertMatch(text, /^before\n[\s\S]*ZeroDivisionError: division by zero/);
    });

    await step("a time limit is a tool error that says what became of the variables", async () => {
      const code = "print('begun', flush=True)\nimport time; time.sleep(60)";
      const { isError, text } = await host.call("execute_ipython_cell", { code, timeout: 0.5 });
      assertEquals(isError, true);
      assertMatch(text, /^begun\n[\s\S]*timeout of 0\.50s[\s\S]*Variables were kept/);
      assertEquals(await host.execute("a"), "40");
    });

    await step("images come as content and as files", async () => {
      const png =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJ" +
        "RU5ErkJggg==";
      const { content, text } = await host.call("execute_ipython_cell", {
        code: `from IPython.display import display\ndisplay({"image/png": "${png}"}, raw=True)`,
      });
      const image = content.find((block) => block.type === "image");
      assertEquals([image?.mimeType, image?.data], ["image/png", png]);
      const path = /Generated images:\n\n- \[[^\]]+\]\((.+)\)/.exec(text)?.[1] ?? "";
      assertEquals((await Deno.readFile(path)).toBase64(), png);
    });

    await step("long output is cut in the middle, and says so", async () => {
      const { text } = await host.call("execute_ipython_cell", {
        code: "print('a' * 500 + 'b' * 500)",
        max_output_chars: 50,
      });
      assertStringIncludes(text, "[Output truncated: exceeded 50 character limit");
      assert(text.startsWith("a".repeat(25)) && text.endsWith("b".repeat(25)), text);
    });

    await step("a tool call is asked about as it is, and allowed once", async () => {
      decisions.push("allow once", "deny");
      const text = await host.execute(`${RAW}
print(raw.run_sync("echo", {"path": "/etc"}).text)
try: raw.run_sync("count")
except Exception as error: print(type(error).__name__, error)`);
      assertStringIncludes(text, '"arguments":{"path":"/etc"}');
      assertStringIncludes(text, "ApprovalRejectedError");
      const [first = "", second = "", ...others] = asked();
      assertStringIncludes(first, "raw.echo(path='/etc')");
      assertStringIncludes(second, "raw.count()");
      assertEquals(others, []);
    });

    await step("a tool that is allowed for a cell is asked about once, in this cell", async () => {
      decisions.push("allow this tool in this cell");
      assertEquals(
        await host.execute(`${RAW}[raw.run_sync("count").text for _ in range(12)][-1]`),
        "'12'",
      );
      assertEquals(asked().length, 1);
      decisions.push(null);
      const { isError, text } = await host.call("execute_ipython_cell", {
        code: `${RAW}raw.run_sync("count")`,
      });
      assertEquals([isError, asked().length], [true, 1]);
      assertStringIncludes(text, "ApprovalRejectedError");
    });

    await step("calls at once are all asked about", async () => {
      decisions.push(...Array(3).fill("allow once"));
      const text = await host.execute(`${RAW}
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(3) as pool:
    print(sorted(pool.map(lambda n: int(raw.run_sync("count").text), range(3))))`);
      assertEquals(text, "[13, 14, 15]");
      assertEquals(asked().length, 3);
    });

    await step(
      "a registration is asked about to the last character, and can be declined",
      async () => {
        const registry = `${workspace.path}/.ipybox/mcp.json`;
        const before = await Deno.readTextFile(registry);
        decisions.push("deny");
        const params = { command: "touch", args: [`${workspace.path}/started`, "\u202e"] };
        const { isError, text } = await host.call("register_mcp_server", {
          server_name: "evil",
          server_params: params,
        });
        assertEquals(isError, true);
        assertStringIncludes(text, "did not allow");
        const [question = ""] = asked();
        assertStringIncludes(question, `${workspace.path}/started`);
        assert(!question.includes("\u202e") && question.includes("\\u{202e}"), question);
        assertEquals(await Deno.readTextFile(registry), before);
        assertEquals((await filesBelow(workspace.path)).has("started"), false);
      },
    );

    await step("a registered server's tools can be called in the next cell", async () => {
      decisions.push("allow", "allow once");
      const { isError, content } = await host.call("register_mcp_server", {
        server_name: "again",
        server_params: { ...rawServer() },
      });
      assertEquals(isError, false);
      assertEquals(content.slice(0, 2).map((block) => block.text), ["echo", "structured"]);
      assertEquals(
        await host.execute("from mcptools.again import count\nprint(count.run())"),
        "1",
      );
    });

    await step("reset clears variables and keeps servers", async () => {
      decisions.push("allow once");
      assertEquals((await host.call("reset")).isError, false);
      const text = await host.execute(
        "from mcptools.again import count\nprint('a' in globals(), count.run())",
      );
      assertEquals(text, "False 1");
    });

    await step("bad arguments are refused in words, before anybody is asked", async () => {
      asked();
      const cases: [tool: string, args: Record<string, unknown>, words: RegExp][] = [
        [
          "register_mcp_server",
          { server_name: "../x", server_params: {} },
          /Invalid MCP server name/,
        ],
        ["register_mcp_server", { server_name: "x", server_params: {} }, /"command" or "url"/],
        ["install_package", { package_name: "--index-url=http://evil" }, /package/i],
        ["install_package", { package_name: "six --pre" }, /package/i],
        ["install_package", { package_name: "git+https://evil/x" }, /package/i],
        ["install_package", { package_name: "./local" }, /package/i],
      ];
      for (const [tool, args, words] of cases) {
        const { isError, text } = await host.call(tool, args);
        assertEquals(isError, true, text);
        assertMatch(text, words);
      }
      assertEquals(asked(), []);
    });
  });
}

Deno.test("ipybox mcp refuses what needs approval where the client cannot ask", async (t) => {
  await using workspace = await workspaceWithServer();
  await using host = await McpHost.start({ args: ["--workspace", workspace.path, "--no-sandbox"] });
  const step = stepsOf(t);

  await step("a tool call, and says how it could be allowed", async () => {
    const { isError, text } = await host.call("execute_ipython_cell", {
      code: `${RAW}raw.run_sync("count")`,
    });
    assertEquals(isError, true);
    assertStringIncludes(text, "no elicitation");
    assertStringIncludes(text, "--approve allow");
  });

  await step("a registration, and says what the user can run", async () => {
    const { isError, text } = await host.call("register_mcp_server", {
      server_name: "x",
      server_params: { command: "touch", args: [`${workspace.path}/a b`] },
    });
    assertEquals(isError, true);
    assertStringIncludes(text, `ipybox register x -- touch '${workspace.path}/a b'`);
  });

  await step("a cancelled call interrupts its cell, and the state is kept", async () => {
    const mark = `mark-${crypto.randomUUID()}`;
    await host.execute("b = 1");
    const cancel = new AbortController();
    const call = host.call("execute_ipython_cell", {
      code: `import subprocess\nsubprocess.run(["sh", "-c", "sleep 1000; : ${mark}"])`,
    }, cancel.signal);
    await until("the cell has begun", async () => (await processesWith(mark)).length > 0);
    cancel.abort(new Error("the user pressed Escape"));
    await assertRejects(() => call);
    assertEquals(await host.execute("b"), "1");
    await untilNoneWith(mark);
  });

  await step("install_package installs a wheel that can be imported at once", async () => {
    const { isError, text } = await host.call("install_package", { package_name: "six==1.17.0" });
    assertEquals(isError, false, text);
    assertEquals(await host.execute("import six; print(six.__version__)"), "1.17.0");
  });

  await step("install_package says what went wrong", async () => {
    const { isError, text } = await host.call("install_package", { package_name: "six==0.0.0" });
    assertEquals(isError, true);
    assertStringIncludes(text, "six==0.0.0");
  });
});

Deno.test("ipybox mcp ends a cell whose question was cancelled", async () => {
  await using workspace = await workspaceWithServer();
  const cancel = new AbortController();
  await using host = await McpHost.start({
    args: ["--workspace", workspace.path, "--no-sandbox"],
    answer: () => {
      cancel.abort(new Error("the user pressed Escape"));
      return new Promise(() => {}); // the form stays open
    },
  });

  await assertRejects(() =>
    host.call("execute_ipython_cell", { code: `${RAW}raw.run_sync("count")` }, cancel.signal)
  );

  assertEquals(await host.execute("1 + 1"), "2");
});

Deno.test("ipybox mcp --approve allow asks nobody, and deny refuses", async () => {
  await using workspace = await workspaceWithServer();
  const answers = { allow: false, deny: true };
  for (const [mode, isError] of Object.entries(answers)) {
    await using host = await McpHost.start({
      args: ["--workspace", workspace.path, "--no-sandbox", "--approve", mode],
      answer: () => {
        throw new Error("nobody is to be asked");
      },
    });
    const code = `${RAW}print(raw.run_sync("count").text)`;
    assertEquals((await host.call("execute_ipython_cell", { code })).isError, isError);
    const read = `${RAW}raw.resources.read("x://y")`; // it has none, which its own error says
    const { content } = await host.call("execute_ipython_cell", { code: read });
    assertEquals(JSON.stringify(content).includes("ApprovalRejectedError"), isError);
    const params = { server_name: "again", server_params: { ...rawServer() } };
    assertEquals((await host.call("register_mcp_server", params)).isError, isError);
  }
});

for (const how of ["the end of stdin", "SIGTERM", "SIGINT"] as const) {
  Deno.test(`ipybox mcp ends at ${how}, in the middle of a cell, and leaves no process`, async () => {
    await using workspace = await TempFolder.create();
    await using cache = await TempCache.create();
    const mark = `mark-${crypto.randomUUID()}`;
    const code = `import subprocess, time
subprocess.Popen(["setsid", "sh", "-c", "sleep 1000; : ${mark}"]); time.sleep(1000)`;
    await using server = new Deno.Command(Deno.execPath(), {
      args: [...cliArguments, "mcp", "--workspace", workspace.path],
      env: { ...cache.env },
      stdin: "piped",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    const ended = server.output();
    const writer = server.stdin.getWriter();
    await writer.write(lines(INITIALIZE, INITIALIZED, {
      jsonrpc: "2.0",
      id: 2,
      method: "tools/call",
      params: { name: "execute_ipython_cell", arguments: { code } },
    }));
    await until("the cell has begun", async () => (await processesWith(mark)).length > 0);

    if (how === "the end of stdin") await writer.close();
    else server.kill(how);

    const { code: exitCode, stdout, stderr } = await ended;
    await writer.close().catch(() => {}); // it was closed, or nobody reads it
    assertEquals(exitCode, 0, new TextDecoder().decode(stderr));
    for (const line of new TextDecoder().decode(stdout).trimEnd().split("\n")) {
      assertEquals(JSON.parse(line).jsonrpc, "2.0"); // nothing but the protocol
    }
    await untilNoneWith(mark);
    await untilNoneWith(workspace.path);
  });
}

Deno.test("ipybox mcp answers before its kernel is up, and says why there is none", async () => {
  await using workspace = await TempFolder.create();
  await using host = await McpHost.start({
    args: ["--workspace", workspace.path, "--python", "/bin/false"],
  });

  const tools = await host.tools();
  const { isError, text } = await host.call("execute_ipython_cell", { code: "1" });

  assert(tools.length >= 4);
  assertEquals(isError, true);
  assertStringIncludes(text, 'Cannot use "/bin/false" as Python');
  assertStringIncludes(text, "The user can fix it with: ");
});

const INITIALIZE = {
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: {
    protocolVersion: "2025-11-25",
    capabilities: {},
    clientInfo: { name: "test", version: "1" },
  },
};
const INITIALIZED = { jsonrpc: "2.0", method: "notifications/initialized" };

function lines(...messages: unknown[]): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(messages.map((line) => JSON.stringify(line) + "\n").join(""));
}

/** A workspace in which the server `raw` is registered. */
async function workspaceWithServer(): Promise<TempFolder> {
  const workspace = await TempFolder.create();
  const registry = await ServerRegistry.open({ workspace: workspace.path });
  await registry.register("raw", rawServer());
  return workspace;
}
