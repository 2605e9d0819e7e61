import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { generatePackage } from "../../src/apigen/generate.ts";
import { ServerRegistry } from "../../src/servers/registry.ts";
import { until } from "../support/wait.ts";
import { rawServer } from "../support/mcp.ts";
import { CLIENT_ERAS, McpHost } from "../support/mcp_client.ts";
import { stepsOf } from "../support/steps.ts";
import { TempFolder } from "../support/temp_folder.ts";

for (const kind of CLIENT_ERAS) {
  Deno.test(`ipybox mcp has resources and prompts for a client of the kind ${kind}`, async (t) => {
    await using workspace = await TempFolder.create();
    let changes = 0;
    await using host = await McpHost.start({
      kind,
      args: ["--workspace", workspace.path, "--no-sandbox", "--approve", "allow"],
      onResourcesChanged: () => void changes++,
    });
    const step = stepsOf(t);

    await step("a registration changes the list, which is told", async () => {
      assertEquals(await host.resources(), []);
      const params = { server_name: "raw", server_params: { ...rawServer() } };
      assertEquals((await host.call("register_mcp_server", params)).isError, false);
      const uris = (await host.resources()).map(({ uri }) => uri);
      assertEquals(uris, ["mcptools://raw/__init__.py", "mcptools://raw/schema.json"]);
      await until("the change was told", () => changes > 0);
    });

    await step("the sources of the generated API", async () => {
      const folder = `${workspace.path}/mcptools/raw`;
      for (const name of ["__init__.py", "count.py", "schema.json"]) {
        const text = await host.read(`mcptools://raw/${name}`);
        assertEquals(text, await Deno.readTextFile(`${folder}/${name}`));
      }
    });

    await step("nothing else", async () => {
      await Deno.writeTextFile(`${workspace.path}/secret.py`, "");
      const others = [
        "mcptools://raw/nothing.py",
        "mcptools://other/count.py",
        "mcptools://raw/..%2F..%2Fsecret.py",
        "mcptools://../secret.py",
        "ipybox://outputs/..%2Fsecret.py",
        "ipybox://images/secret.py",
      ];
      for (const uri of others) await assertRejects(() => host.read(uri), uri);
    });

    await step("templates, whose variables are completed", async () => {
      assertEquals((await host.templates()).toSorted(), [
        "ipybox://images/{file}",
        "ipybox://outputs/{file}",
        "mcptools://{server}/schema.json",
        "mcptools://{server}/{module}.py",
      ]);
      const ref = { type: "ref/resource", uri: "mcptools://{server}/{module}.py" } as const;
      assertEquals(await host.complete(ref, { name: "server", value: "r" }), ["raw"]);
      const modules = await host.complete(ref, { name: "module", value: "c" }, { server: "raw" });
      assertEquals(modules, ["count", "cwd"]);
    });

    await step("the whole output of a cell", async () => {
      await host.call("execute_ipython_cell", { code: "print('x' * 6000)" });
      const output = (await host.resources()).find(({ uri }) =>
        String(uri).startsWith("ipybox://outputs/")
      );
      assertEquals(await host.read(String(output?.uri)), "x".repeat(6000));
    });

    await step("prompts that teach the workflow", async () => {
      assertEquals((await host.prompts()).toSorted(), ["code_action", "debug_cell", "use_server"]);
      const task = await host.prompt("code_action", { task: "Count the stars" });
      assert(task.startsWith("Count the stars\n"), task);
      assertStringIncludes(task, "search_tools");
      assertStringIncludes(await host.prompt("use_server", { server: "raw" }), 'server "raw"');
      const ref = { type: "ref/prompt", name: "use_server" } as const;
      assertEquals(await host.complete(ref, { name: "server", value: "" }), ["raw"]);
    });

    await step("search_tools ranks, and tells as much as was asked for", async () => {
      const search = (args: Record<string, unknown>) => host.call("search_tools", args);
      const names = await search({ query: "", detail: "names" });
      assertEquals(names.text.split("\n").length, 10);
      const count = await search({ query: "count", detail: "signatures" });
      assertStringIncludes(count.text, "from mcptools.raw import count\ncount.run(");
      const full = await search({ query: "count", detail: "full", server: "raw" });
      assertStringIncludes(full.text, "from mcptools.raw import count\ncount.run(");
      const nothing = await search({ query: "xylophone" });
      assertEquals([nothing.isError, nothing.text], [
        false,
        "No tools found. Registered servers: raw",
      ]);
      const unknown = await search({ query: "count", server: "other" });
      assertEquals(unknown.isError, true);
      assertStringIncludes(unknown.text, "Registered servers: raw");
    });

    await step("search_tools finds saved actions, and follows no link of theirs", async () => {
      const folder = `${workspace.path}/gentools/weather/warmest_city`;
      await Deno.mkdir(folder, { recursive: true });
      const api = '"""Finds the warmest city."""\n\n\ndef run(cities: list[str]) -> str: ...\n';
      await Deno.writeTextFile(`${folder}/api.py`, api);
      await Deno.symlink(folder, `${workspace.path}/gentools/weather/warmest_link`);
      const names = await host.call("search_tools", { query: "warmest city", detail: "names" });
      const line = "gentools.weather.warmest_city: Finds the warmest city.";
      assertEquals(names.text.split("\n").filter((row) => row.includes("warmest")), [line]);
      const { text } = await host.call("search_tools", { query: "the warmest city" });
      const shown = "from gentools.weather import warmest_city\n" +
        '    """Finds the warmest city."""\n\n\n    def run(cities: list[str]) -> str: ...';
      assertStringIncludes(text, shown);
      // With the tools, by how well they match.
      const first = async (query: string) =>
        (await host.call("search_tools", { query, detail: "names" })).text.split(/[:\n]/)[0];
      assertEquals(await first("count the warmest city"), "gentools.weather.warmest_city");
      assertEquals(await first("count"), "raw.count");
    });
  });
}

Deno.test("search_tools answers in bounds for 500 tools", async () => {
  await using workspace = await TempFolder.create();
  const registry = await ServerRegistry.open({ workspace: workspace.path });
  await registry.register("many", rawServer());
  const tools = Array.from({ length: 500 }, (_, n) => ({
    name: `make-thing-${n}`,
    description: `Makes thing number ${n}. ${"It has much to say. ".repeat(100)}`,
    inputSchema: { type: "object", properties: { title: { type: "string" } } },
  }));
  await generatePackage("many", { tools }, { rootDir: `${workspace.path}/mcptools` });
  await using host = await McpHost.start({
    args: ["--workspace", workspace.path, "--no-sandbox"],
  });

  for (const detail of ["names", "signatures", "full"]) {
    for (const query of ["", "make thing"]) {
      const { text } = await host.call("search_tools", { query, detail });
      assert(text.length < 13_000, `${detail}: ${text.length}`);
      const shown = text.match(/^(?:from mcptools|many\.)/gm)?.length ?? 0;
      assertStringIncludes(text, `[${500 - shown} more match`);
    }
  }
  const { text } = await host.call("search_tools", { query: "thing 321", detail: "names" });
  assert(text.startsWith("many.make_thing_321: Makes thing number 321."), text);
});
