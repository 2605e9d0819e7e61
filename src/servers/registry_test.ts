import { assertEquals, assertRejects } from "@std/assert";
import { ConfigError } from "../base/errors.ts";
import { ServerRegistry } from "./registry.ts";

async function inWorkspace(test: (workspace: string) => Promise<void>): Promise<void> {
  const workspace = await Deno.makeTempDir();
  try {
    await test(workspace);
  } finally {
    await Deno.remove(workspace, { recursive: true });
  }
}

Deno.test("ServerRegistry keeps servers in the usual format, variables unfilled", async () => {
  await inWorkspace(async (workspace) => {
    const registry = await ServerRegistry.open({ workspace });
    await registry.register("github", { url: "https://x/mcp", headers: { A: "Bearer ${T}" } });
    await registry.register("files", { command: "npx", args: ["server", "."] });
    const text = await Deno.readTextFile(`${workspace}/.ipybox/mcp.json`);
    assertEquals(JSON.parse(text), {
      mcpServers: {
        github: { url: "https://x/mcp", headers: { A: "Bearer ${T}" } },
        files: { command: "npx", args: ["server", "."] },
      },
    });
    const again = await ServerRegistry.open({ workspace });
    assertEquals(again.names, ["files", "github"]);
    assertEquals(await again.unregister("files"), true);
    assertEquals(await again.unregister("files"), false);
    await registry.reload();
    assertEquals(registry.names, ["github"]);
  });
});

Deno.test("ServerRegistry keeps what is not its own in the file", async () => {
  await inWorkspace(async (workspace) => {
    await Deno.mkdir(`${workspace}/.ipybox`);
    const path = `${workspace}/.ipybox/mcp.json`;
    await Deno.writeTextFile(path, '{"inputs":[1],"mcpServers":{"a":{"command":"x"}}}');
    await (await ServerRegistry.open({ workspace })).register("b", { command: "y" });
    assertEquals(JSON.parse(await Deno.readTextFile(path)), {
      inputs: [1],
      mcpServers: { a: { command: "x" }, b: { command: "y" } },
    });
  });
});

Deno.test("ServerRegistry prefers given servers to the file's, until registered anew", async () => {
  await inWorkspace(async (workspace) => {
    await (await ServerRegistry.open({ workspace })).register("a", { command: "file" });
    const registry = await ServerRegistry.open({ workspace, servers: { a: { command: "given" } } });
    assertEquals(registry.get("a"), { command: "given" });
    await registry.register("a", { command: "new" });
    await registry.reload();
    assertEquals(registry.get("a"), { command: "new" });
  });
});

Deno.test("ServerRegistry without a workspace forgets nothing on reload", async () => {
  const registry = await ServerRegistry.open({ servers: { a: { command: "x" } } });
  await registry.register("b", { command: "y" });
  await registry.reload();
  assertEquals(registry.names, ["a", "b"]);
});

Deno.test("ServerRegistry does not notice what is written to the file behind its back", async () => {
  await inWorkspace(async (workspace) => {
    const registry = await ServerRegistry.open({ workspace });
    await Deno.mkdir(`${workspace}/.ipybox`);
    const text = '{"mcpServers":{"evil":{"command":"sh"}}}';
    await Deno.writeTextFile(`${workspace}/.ipybox/mcp.json`, text);
    assertEquals(registry.get("evil"), undefined);
  });
});

Deno.test("ServerRegistry says file, line and column of bad JSON", async () => {
  const bad: [string, string][] = [
    ['{\n  "mcpServers": {,}\n}', "mcp.json:2:18"],
    ["{", "mcp.json:1:2"],
    ['{"a": 1}}', "mcp.json:1:9"],
    ["[]", "must be a JSON object"],
    ['{"mcpServers": []}', '"mcpServers" must be an object'],
    ['{"mcpServers": {"x": {}}}', 'MCP server "x"'],
    ['{"mcpServers": {"x": {"command": "y", "arg": []}}}', 'Unknown key "arg"'],
    ['{"mcpServers": {"../x": {"command": "y"}}}', "../x"],
    ['{"mcpServers": {"__proto__": {"command": "y"}}}', "__proto__"],
  ];
  for (const [text, problem] of bad) {
    await inWorkspace(async (workspace) => {
      await Deno.mkdir(`${workspace}/.ipybox`);
      await Deno.writeTextFile(`${workspace}/.ipybox/mcp.json`, text);
      const error = await assertRejects(
        () => ServerRegistry.open({ workspace }),
        ConfigError,
        problem,
      );
      assertEquals(error.message.includes("mcp.json"), true);
    });
  }
});

Deno.test("ServerRegistry leaves the file as it was when it refuses a registration", async () => {
  await inWorkspace(async (workspace) => {
    const registry = await ServerRegistry.open({ workspace });
    await registry.register("a", { command: "x" });
    const path = `${workspace}/.ipybox/mcp.json`;
    const before = await Deno.readTextFile(path);
    await assertRejects(() => registry.register("../a", { command: "x" }), TypeError);
    await assertRejects(() => registry.register("b", { command: "" }), ConfigError);
    assertEquals(await Deno.readTextFile(path), before);
    assertEquals(registry.names, ["a"]);
  });
});

Deno.test("ServerRegistry goes through no symbolic link", async () => {
  await inWorkspace(async (workspace) => {
    await Deno.mkdir(`${workspace}/elsewhere`);
    await Deno.writeTextFile(`${workspace}/elsewhere/mcp.json`, '{"mcpServers":{}}');
    await Deno.symlink(`${workspace}/elsewhere`, `${workspace}/.ipybox`);
    await assertRejects(() => ServerRegistry.open({ workspace }), ConfigError, "plain folder");
  });
});

Deno.test("ServerRegistry keeps all servers that are registered at once", async () => {
  await inWorkspace(async (workspace) => {
    const registry = await ServerRegistry.open({ workspace });
    const names = ["a", "b", "c", "d"];
    await Promise.all(names.map((name) => registry.register(name, { command: "x" })));
    assertEquals((await ServerRegistry.open({ workspace })).names, names);
  });
});

Deno.test("ServerRegistry loses nothing when several register at once", async () => {
  await inWorkspace(async (workspace) => {
    const names = Array.from({ length: 20 }, (_, n) => `s${n}`);
    await Promise.all(names.map(async (name) => {
      const registry = await ServerRegistry.open({ workspace }); // as in another process
      await registry.register(name, { command: "true" });
    }));
    const registry = await ServerRegistry.open({ workspace });
    assertEquals(registry.names, names.toSorted());
  });
});

Deno.test("ServerRegistry.register() can be taken back", async () => {
  await inWorkspace(async (workspace) => {
    const given = { own: { command: "given" } };
    const registry = await ServerRegistry.open({ workspace, servers: given });
    const run = { files: { ".ipybox/program": "digest" } };
    await registry.register("kept", { command: "before" }, run);
    const undo = [
      await registry.register("kept", { command: "after" }),
      await registry.register("fresh", { command: "after" }),
      await registry.register("own", { command: "after" }),
    ];
    assertEquals(registry.get("own"), { command: "after" });
    for (const takeBack of undo) await takeBack();

    assertEquals(registry.names, ["kept", "own"]);
    assertEquals(registry.get("kept"), { command: "before" });
    assertEquals(registry.get("own"), { command: "given" });
    await registry.reload();
    assertEquals(registry.get("own"), { command: "given" });
    const file = await ServerRegistry.open({ workspace });
    assertEquals([file.names, file.get("kept")], [["kept"], { command: "before" }]);
    assertEquals(file.isUnchanged("kept", run), true);
    assertEquals(file.isUnchanged("kept", { files: { ".ipybox/program": "another" } }), false);
  });
});
