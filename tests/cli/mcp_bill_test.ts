/** What `ipybox mcp` costs a model, in tokens of OpenAI's o200k. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { encode } from "npm:gpt-tokenizer@3.4.0/encoding/o200k_base";
import { ServerRegistry } from "../../src/servers/registry.ts";
import { npmServer, rawServer } from "../support/mcp.ts";
import { McpHost } from "../support/mcp_client.ts";
import { stepsOf } from "../support/steps.ts";
import { TempFolder } from "../support/temp_folder.ts";

/** All definitions and instructions together: what every request of a client carries. */
const MAX_STANDING = 1000;
/** A call with wrong arguments. */
const MAX_WRONG = 120;

const tokens = (text: string) => encode(text).length;

Deno.test("ipybox mcp costs a model little", async (t) => {
  await using workspace = await TempFolder.create();
  const registry = await ServerRegistry.open({ workspace: workspace.path });
  await using host = await McpHost.start({
    // What Python says where nothing was checked before.
    args: ["--workspace", workspace.path, "--approve", "allow", "--check", "off"],
  });
  const step = stepsOf(t);
  const cell = async (code: string) => (await host.call("execute_ipython_cell", { code })).text;
  const search = async () =>
    (await host.tools()).find(({ name }) => name === "search_tools")?.description ?? "";

  await step("search_tools names the registered servers", async () => {
    assertMatch(await search(), /\nRegistered: none yet$/);
    const server_params = npmServer("server-everything");
    await host.call("register_mcp_server", { server_name: "everything", server_params });
    assertMatch(await search(), /\nRegistered: everything$/);
  });

  await step("whatever is registered, its definitions and instructions stay small", async () => {
    for (let i = 10; i < 50; i++) await registry.register(`a_server_${i}`, rawServer());
    await host.call("unregister_mcp_server", { server_name: "a_server_49" }); // and so it looks again
    assertMatch(await search(), /\nRegistered: a_server_10, [\w, ]+, \d+ more$/);
    const tools = (await host.tools()).map(({ name, description, inputSchema }) => ({
      name,
      description,
      inputSchema,
    }));
    const standing = tokens(JSON.stringify(tools)) + tokens(host.instructions);
    assert(standing <= MAX_STANDING, `${standing} tokens`);
  });

  await step("wrong arguments cost the line, what is wrong, the signature and a hint", async () => {
    const first = await cell(
      "from mcptools.everything import get_sum\nx = 1\nprint(get_sum.run(a=1, bb=2))",
    );
    assertMatch(first, /-> 3 print\(get_sum\.run\(a=1, bb=2\)\)/);
    assertMatch(first, /b\n +Required; is 'bb' meant for it\?/);
    const others = [
      "get_sum.run(a='1', b=2)",
      "get_sum.run({'a': 1})",
      "get_sum.run(aa=3, bb=[1] * 1000)",
      `get_sum.run(**{f"name {i}": i for i in range(100)})`,
    ];
    for (const code of others) {
      const text = await cell(code);
      assert(tokens(text) <= MAX_WRONG, text);
      assert(!text.includes("pydantic") && !text.includes("/"), text);
      assertMatch(text, /get_sum\.run\([ab]: float/);
    }
    assertEquals(
      await cell(
        "from pydantic import ValidationError\ntry: get_sum.run()\nexcept ValidationError as e: print(e.error_count())",
      ),
      "2",
    );
  });

  await step("and no more where functions call functions, wherever these are", async () => {
    await Deno.writeTextFile(
      `${workspace.path}/helper.py`,
      "from mcptools.everything import get_sum\n\n\ndef add(x):\n    return get_sum.run(a=x, bb=2)\n",
    );
    await cell(`import asyncio, helper
from concurrent.futures import ThreadPoolExecutor
def inner(x): return get_sum.run(a=x, bb=2)
def outer(x): return [inner(x + i) for i in range(3)]
def deep(n): return get_sum.run(a='x', bb=2) if n == 0 else deep(n - 1)
async def one(x): return await get_sum.run_async(a=x, bb=2)
async def two(x): return await one(x)`);
    const nested: Readonly<Record<string, string>> = {
      "outer(1)": "-> 3 def inner(x): return get_sum.run(a=x, bb=2)\n",
      "x = 1\n[get_sum.run(a=x, bb=2) for x in range(3)]":
        "-> 2 [get_sum.run(a=x, bb=2) for x in range(3)]\n",
      "list(map(lambda x: inner(x), [1]))": "-> 3 def inner(x): return get_sum.run(a=x, bb=2)\n",
      "deep(30)": "-> 5 def deep(n): return get_sum.run(a='x', bb=2) if n == 0 else deep(n - 1)\n",
      "await asyncio.gather(*(two(i) for i in range(5)))":
        "-> 6 async def one(x): return await get_sum.run_async(a=x, bb=2)\n",
      "with ThreadPoolExecutor() as pool:\n    list(pool.map(inner, range(3)))":
        "-> 3 def inner(x): return get_sum.run(a=x, bb=2)\n",
      "y = 5\nhelper.add(y)": "-> 2 helper.add(y)\n",
      "get_sum.run(a=1,\n    bb=[1, 2, 3])": "-> 1 get_sum.run(a=1,\n",
    };
    for (const [code, line] of Object.entries(nested)) {
      const text = await cell(code);
      assertStringIncludes(text, line);
      assertStringIncludes(text, "Required; is 'bb' meant for it?");
      assert(tokens(text) <= MAX_WRONG, `${tokens(text)} tokens: ${text}`);
    }
    assertStringIncludes(await cell("helper.add(1)"), "-> 5 return get_sum.run(a=x, bb=2)\n");
  });

  await step("and no more where calls are made together", async () => {
    const together = (calls: string) =>
      `import asyncio
if hasattr(asyncio, "TaskGroup"):
    async with asyncio.TaskGroup() as group:
        for i in range(5): group.create_task(${calls})
else: raise TypeError("group.create_task: 5 sub-exceptions, meant for it?, 4 more like it")`;
    for (const calls of ["get_sum.run_async(a=i, bb=2)", "two(i)"]) {
      const text = await cell(together(calls));
      assertStringIncludes(text, "5 sub-exceptions");
      assertStringIncludes(text, "meant for it?");
      assertStringIncludes(text, "4 more like it");
      assert(tokens(text) <= MAX_WRONG, `${tokens(text)} tokens: ${text}`);
      assert(!text.includes("site-packages") && !text.includes("/tmp/"), text);
    }
    const own = await cell(
      "async def fail(i): raise ValueError(f'bad {i}')\n" + together("fail(i)"),
    );
    assertMatch(own, /ValueError: bad 0[^]*bad 2\n+\(2 different ones are omitted\)|TypeError/);
  });

  await step("the full API of a tool is a stub", async () => {
    const { text } = await host.call("search_tools", {
      query: "get structured content weather",
      server: "everything",
      detail: "full",
    });
    assertMatch(text, /^from mcptools\.everything import get_structured_content\n/);
    assertStringIncludes(text, "class Result:\n    temperature: float");
    assert(!/run_async|_omit|__future__|BaseModel/.test(text), text);
    const signature = await host.call("search_tools", {
      query: "get structured content weather",
      server: "everything",
    });
    assertMatch(
      signature.text,
      /-> Result\(temperature: float, conditions: str, humidity: float\)/,
    );
  });
});
