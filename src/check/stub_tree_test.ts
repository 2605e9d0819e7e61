import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { renderResults } from "../apigen/render.ts";
import { shapeOf } from "../json/shape.ts";
import { TempFolder } from "../../tests/support/temp_folder.ts";
import { StubTree } from "./stub_tree.ts";

Deno.test("StubTree writes stubs again when more is known of results, and not before", async () => {
  await using folder = await TempFolder.create();
  const [stubs, mcptools] = [join(folder.path, "stubs"), join(folder.path, "mcptools")];
  const server = join(mcptools, "gh");
  await Deno.mkdir(server, { recursive: true });
  const tool = { name: "list", inputSchema: { type: "object" } };
  await Deno.writeTextFile(join(server, "schema.json"), JSON.stringify({ tools: [tool] }));
  const tree = new StubTree(stubs, mcptools);
  await tree.begin();

  const files = await tree.update(["gh"]);
  assertEquals(new Set(files.map(({ change }) => change)), new Set(["created"]));
  assertEquals(await tree.update(["gh"]), []);

  const results = new Map([["list", { calls: 3, shape: shapeOf({ id: 1 }) }]]);
  await Deno.writeTextFile(join(server, "observed.json"), renderResults(results));
  const again = await tree.update(["gh"]);
  assertEquals(new Set(again.map(({ change }) => change)), new Set(["changed"]));
  const stub = await Deno.readTextFile(join(stubs, "mcptools", "gh", "list.pyi"));
  assertStringIncludes(stub, "run_json_async = staticmethod(");
  assertEquals((await tree.members("mcptools.gh.list")).slice(0, 5), [
    ...["CLIENT", "run", "run_async", "run_json", "run_json_async"],
  ]);
});

Deno.test("StubTree makes the stubs of a server once, also for cells that ask at the same time", async () => {
  await using folder = await TempFolder.create();
  const { tree, define } = await treeOf(folder.path);
  await define([{ name: "list", inputSchema: { type: "object" } }]);

  const [first, second] = await Promise.all([tree.update(["gh"]), tree.update(["gh"])]);
  assert(first.length > 0);
  assertEquals(second, []);
});

Deno.test("StubTree forgets the tools whose stubs it makes again", async () => {
  await using folder = await TempFolder.create();
  const { tree, define } = await treeOf(folder.path);
  await define([{ name: "list" }]);
  await tree.update(["gh"]);
  assertEquals(tree.tool(0)?.tool, "list");

  await define([{ name: "list", description: "It lists." }]);
  await tree.update(["gh"]);
  assertEquals(tree.tool(0), undefined);
  assertEquals(tree.tool(1)?.tool, "list");
});

/** A tree, and a function that changes the tools of its only server. */
async function treeOf(folder: string) {
  const server = join(folder, "mcptools", "gh");
  await Deno.mkdir(server, { recursive: true });
  const tree = new StubTree(join(folder, "stubs"), join(folder, "mcptools"));
  await tree.begin();
  const define = (tools: readonly unknown[]) =>
    Deno.writeTextFile(join(server, "schema.json"), JSON.stringify({ tools }));
  return { tree, define };
}
