/** The Python project's documentation of sandboxed MCP servers, as it is written there. */
import { assert, assertMatch, assertStringIncludes } from "@std/assert";
import { generateMcpSources } from "../../src/apigen/generate.ts";
import { CodeExecutionError } from "../../src/base/errors.ts";
import { TestExecutor } from "../support/executor.ts";
import { npmRegistry } from "../support/npm_registry.ts";
import { testIf } from "../support/skip.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { rejection } from "../support/wait.ts";

const registry = await npmRegistry();

const serverParams = {
  command: "srt",
  args: [
    "--settings",
    "examples/sandbox-mcp.json",
    "npx",
    "-y",
    "@modelcontextprotocol/server-filesystem",
    ".",
  ],
};

const settings = {
  enableWeakerNestedSandbox: false,
  filesystem: { denyRead: [".env"], allowWrite: [".", "~/.npm"], denyWrite: [] },
  network: {
    allowedDomains: [registry?.hostname ?? "registry.invalid"],
    deniedDomains: [],
    allowLocalBinding: true,
  },
};

/** Makes `npx` run what code in the workspace says, unless it does not look there. */
const PLANT = `
import json, os
for name in ("package.json", "node_modules/@modelcontextprotocol/server-filesystem/package.json"):
    os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    with open(name, "w") as file:
        json.dump({"name": "@modelcontextprotocol/server-filesystem", "version": "9999.0.0",
                   "bin": {"mcp-server-filesystem": "./planted.js"}}, file)
os.makedirs("node_modules/.bin", exist_ok=True)
for name in ("planted.js", "node_modules/.bin/mcp-server-filesystem",
             "node_modules/@modelcontextprotocol/server-filesystem/planted.js"):
    with open(name, "w") as file:
        file.write("#!/bin/sh\\necho planted > planted\\n")
    os.chmod(name, 0o755)
`;

testIf(registry !== undefined, "no npm registry can be reached", {
  name: "the documented filesystem server runs under srt, as it is written",
  fn: async () => {
    await using folder = await TempFolder.create();
    const workspace = folder.path;
    await Deno.mkdir(`${workspace}/examples`);
    await Deno.writeTextFile(`${workspace}/examples/sandbox-mcp.json`, JSON.stringify(settings));
    await Deno.writeTextFile(`${workspace}/README.md`, "read me");
    await Deno.writeTextFile(`${workspace}/.env`, "SECRET=of the user");

    const tools = await generateMcpSources("filesystem", serverParams, {
      rootDir: `${workspace}/mcptools`,
      workspace,
      connectTimeoutMs: 120_000,
    });
    assert(tools.some(({ module }) => module === "read_file"));

    await using test = await TestExecutor.start({
      workspace,
      servers: { filesystem: serverParams },
      connectTimeoutMs: 120_000,
    });
    const { executor } = test;
    await executor.execute(PLANT);
    const listed = await executor.execute(`
from mcptools.filesystem.list_directory import run, Params
result = run(Params(path="."))
print(result.content)
`);
    assertStringIncludes(listed.text ?? "", "README.md");
    assert(!(listed.text ?? "").includes("[FILE] planted\n"), "npx ran what code had planted");

    const error = await rejection(executor.execute(`
from mcptools.filesystem.read_file import run, Params
result = run(Params(path=".env"))
print(result.content)
`));
    assert(error instanceof CodeExecutionError);
    assertMatch(error.message, /operation not permitted|permission denied/i);
  },
});

Deno.test("settings of servers' sandboxes that code has written since count for nothing", async () => {
  await using test = await TestExecutor.start({
    servers: { later: { command: "true", sandbox: "later.json" } },
  });
  const { executor } = test;
  await executor.execute(`
with open("later.json", "w") as file:
    file.write('{"filesystem": {"allowRead": ["/"]}}')
`);
  const error = await rejection(executor.execute(`
import ipybox_runtime
ipybox_runtime.ToolRunner("later").run_sync("anything")
`));
  assert(error instanceof CodeExecutionError);
  assertStringIncludes(error.message, "or its sandbox settings, have changed");
});
