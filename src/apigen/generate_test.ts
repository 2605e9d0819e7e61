import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { TempFolder } from "../../tests/support/temp_folder.ts";
import { ConfigError } from "../base/errors.ts";
import { generatePackage, renderFiles } from "./generate.ts";

function tool(name: string, properties: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    name,
    description: `Does ${name}. And more.`,
    inputSchema: { type: "object", properties },
  };
}

Deno.test("renderFiles() keeps the types of a tool with values of many kilobytes", () => {
  const large = tool("large", { a: { enum: ["x".repeat(200_000), "y"] } });
  assertEquals(renderFiles("demo", { tools: [large] }).tools[0]?.warnings, []);
});

Deno.test("generatePackage() says what became of each tool, in the server's order", async () => {
  await using directory = await TempFolder.create();
  const tools = [tool("z-tool"), tool("a"), null, tool("a"), { name: "bare" }];

  const generated = await generatePackage("demo", { tools }, { rootDir: directory.path });

  assertEquals(generated, [
    { tool: "z-tool", module: "z_tool", warnings: [] },
    { tool: "a", module: "a", warnings: [] },
    { tool: "#3", module: null, warnings: ["The entry in the list is not an object"] },
    { tool: "a", module: null, warnings: ["An earlier tool in the list has the same name"] },
    {
      tool: "bare",
      module: "bare",
      warnings: ["inputSchema is not an object: arguments are not checked"],
    },
  ]);
  assertEquals(await directory.list("demo"), [
    "__init__.py",
    "a.py",
    "bare.py",
    "py.typed",
    "schema.json",
    "z_tool.py",
  ]);
  assertEquals(await directory.list(), ["demo", "ipybox_runtime"]);
});

Deno.test("generatePackage() describes the server and keeps the raw definitions", async () => {
  await using directory = await TempFolder.create();
  const tools = [tool("get-sum", { a: { type: "number", "x-odd": [1.5, null] } })];
  const serverInfo = { name: "srv", title: "A server", version: "1" };

  await generatePackage("demo", { tools, serverInfo, instructions: "Be careful." }, {
    rootDir: directory.path,
  });

  const init = await Deno.readTextFile(`${directory.path}/demo/__init__.py`);
  for (
    const part of [
      '"""A server (',
      "Be careful.",
      "    get_sum: Does get-sum.\n",
      'ToolRunner("demo")',
      "    from . import get_sum as get_sum\n",
    ]
  ) {
    assertStringIncludes(init, part);
  }
  const raw = JSON.parse(await Deno.readTextFile(`${directory.path}/demo/schema.json`));
  assertEquals(raw, { server: "demo", serverInfo, instructions: "Be careful.", tools });
});

Deno.test("generatePackage() keeps what a user added, and drops the modules of tools that are gone", async () => {
  await using directory = await TempFolder.create();
  const { path: rootDir } = directory;
  const path = `${rootDir}/demo/search.py`;
  await generatePackage("demo", { tools: [tool("search"), tool("other")] }, { rootDir });
  const added =
    "def run_parsed(params: Params) -> list[str]:\n    return run(params).splitlines()\n";
  await Deno.writeTextFile(path, `${await Deno.readTextFile(path)}\n\n${added}`);

  for (const limit of ["integer", "integer", "string"]) {
    const tools = [tool("search", { limit: { type: limit } })];
    await generatePackage("demo", { tools }, { rootDir });
    const text = await Deno.readTextFile(path);
    assertStringIncludes(text, limit === "string" ? "limit: str | None" : "limit: Int | None");
    assertEquals(text.split(added).length, 2);
    assertEquals(text.split("# Additions:").length, 2);
  }
  assertEquals(await directory.list("demo"), [
    "__init__.py",
    "py.typed",
    "schema.json",
    "search.py",
  ]);
});

Deno.test("generatePackage() accepts no name that could be another folder or no package", async () => {
  await using directory = await TempFolder.create();
  for (
    const name of ["..", "../x", "a/b", "", "A", "a-b", "1a", "class", "ipybox_runtime", "a\n"]
  ) {
    await assertRejects(
      () => generatePackage(name, { tools: [] }, { rootDir: `${directory.path}/root` }),
      TypeError,
      "name",
    );
  }
  assertEquals(await directory.list(), []);
});

Deno.test("modules do not depend on the order of the server's list", () => {
  const tools = [tool("a-b"), tool("a_b"), tool("A.B"), tool("c", { "x-y": {}, "x.y": {} })];
  const files = renderFiles("demo", { tools }).files;
  const others = renderFiles("demo", { tools: tools.toReversed() }).files;
  for (const [name, text] of files) {
    if (name.endsWith(".py") && name !== "__init__.py") assertEquals(others.get(name), text, name);
  }
});

Deno.test("generatePackage() says where a link or a file is in its way", async () => {
  await using directory = await TempFolder.create();
  await Deno.symlink("/tmp", `${directory.path}/linked`);
  await Deno.writeTextFile(`${directory.path}/taken`, "");
  for (const name of ["linked", "taken"]) {
    const made = generatePackage(name, { tools: [tool("a")] }, { rootDir: directory.path });
    await assertRejects(() => made, ConfigError, "Remove it first");
  }
});
