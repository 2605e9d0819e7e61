import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { filesBelow } from "../support/files.ts";
import { rawServer } from "../support/mcp.ts";
import { CLIENT_KINDS, McpHost } from "../support/mcp_client.ts";
import { RAW, workspaceWithServer } from "../support/mcp_workspace.ts";
import { stepsOf } from "../support/steps.ts";

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
      args: ["--workspace", workspace.path, ...kind === "1.x" ? [] : ["--no-sandbox"]],
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
      }
    });

    await step("each tool says what it is for and what it may do, in bounds", async () => {
      assert(new TextEncoder().encode(host.instructions).length < 2048);
      for (const tool of await host.tools()) {
        const { name, title, description, annotations = {} } = tool;
        const bytes = new TextEncoder().encode(description).length;
        assert(bytes > 50 && bytes < 2048, `${name}: ${bytes} bytes`);
        assert(title !== undefined && tool.outputSchema === undefined, name);
        assert("readOnlyHint" in annotations && "openWorldHint" in annotations, name);
      }
    });

    await step("cells share their state", async () => {
      await host.execute("a = 40");
      assertEquals(await host.execute("print('text')\na + 2"), "text\n42");
    });

    await step("an exception is a result with its traceback and the text before", async () => {
      const { isError, text } = await host.call("execute_ipython_cell", {
        code: "print('before')\n1 / 0",
      });
      assertEquals(isError, false);
      assertMatch(text, /^before\n[\s\S]*ZeroDivisionError: division by zero/);
    });

    await step("a time limit is a tool error that says what became of the variables", async () => {
      const code = "print('begun', flush=True)\nimport time; time.sleep(60)";
      const { isError, text } = await host.call("execute_ipython_cell", { code, timeout: 3 });
      assertEquals(isError, true);
      assertMatch(text, /^begun\n[\s\S]*timeout of 3\.00s[\s\S]*Variables were kept/);
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

    await step("what only a page can show is a file, which the text names", async () => {
      const text = await host.execute("from IPython.display import HTML\nHTML('<b>page</b>')");
      const path = /^\[HTML: (.+\/images\/[0-9a-f]{8}\.html)\]$/.exec(text)?.[1] ?? "";
      assertMatch(await Deno.readTextFile(path), /<b>page<\/b>$/);
    });

    await step("long output is cut in the middle, and says so", async () => {
      const { text } = await host.call("execute_ipython_cell", {
        code: "print('a' * 500 + 'b' * 500)",
        max_output_chars: 50,
      });
      assertStringIncludes(text, "[Output truncated: exceeded 50 character limit");
      assertMatch(text, /^a{25}\n[^]*\nb{25}\n/);
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
      assertStringIncludes(first, "    | raw.echo(\n    |   path='/etc'\n    | )");
      assertStringIncludes(second, "    | raw.count()");
      assertEquals(others, []);
    });

    await step("a tool that is allowed for a cell is asked about once, in this cell", async () => {
      decisions.push("allow this tool with any arguments in this cell");
      assertEquals(
        await host.execute(`${RAW}[raw.run_sync("count").text for _ in range(12)][-1]`),
        "'12'",
      );
      assertEquals(asked().length, 1);
      decisions.push(null);
      const { isError, text } = await host.call("execute_ipython_cell", {
        code: `${RAW}raw.run_sync("count")`,
      });
      assertEquals([isError, asked().length], [false, 1]);
      assertStringIncludes(text, "ApprovalUnavailableError");
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
        assert(!question.includes("\u202e") && question.includes("\\u202e"), question);
        assertEquals(await Deno.readTextFile(registry), before);
        assertEquals((await filesBelow(workspace.path)).has("started"), false);
      },
    );

    await step("a registered server's tools can be called in the next cell", async () => {
      decisions.push("allow", "allow once");
      const { isError, content, text } = await host.call("register_mcp_server", {
        server_name: "again",
        server_params: { ...rawServer() },
      });
      assertEquals(isError, false);
      assertEquals(content.length, 1);
      assertMatch(text, /^Registered again: echo, structured, /);
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

    await step("a server is removed when its user agrees", async () => {
      asked();
      decisions.push("deny", "allow");
      const remove = () => host.call("unregister_mcp_server", { server_name: "again" });
      assertEquals((await remove()).isError, true);
      const { isError } = await remove();
      assertEquals(isError, false);
      assertEquals((await filesBelow(workspace.path)).has("mcptools/again/count.py"), false);
      assertStringIncludes((await remove()).text, "Registered servers: raw");
      assertEquals(asked().length, 2);
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
        ["install_package", { package_name: "git+ssh://git@example.org/x" }, /package/i],
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
