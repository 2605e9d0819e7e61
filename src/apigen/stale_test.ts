import { assertEquals } from "@std/assert";
import { TempDirectory } from "../../tests/support/temp_directory.ts";
import { generatePackage } from "./generate.ts";
import { findStaleTools } from "./package.ts";

Deno.test("findStaleTools() tells what changed since the package was generated", async () => {
  await using directory = await TempDirectory.create();
  const { path: rootDir } = directory;
  const tool = (name: string, inputSchema: unknown) => ({ name, inputSchema });
  const tools = [tool("same", { type: "object", title: "t" }), tool("other", {}), tool("gone", {})];
  await generatePackage("demo", { tools }, { rootDir });

  const now = [
    tool("same", { title: "t", type: "object" }),
    tool("other", { type: "object" }),
    tool("new", {}),
  ];

  assertEquals(await findStaleTools(`${rootDir}/demo`, now), {
    changed: ["other"],
    added: ["new"],
    removed: ["gone"],
  });
  assertEquals((await findStaleTools(`${rootDir}/nowhere`, now)).added, ["same", "other", "new"]);
});

Deno.test("findStaleTools() reads nothing but a file", async () => {
  await using directory = await TempDirectory.create();
  await Deno.writeTextFile(`${directory.path}/secret`, '{"tools": [{"name": "a"}]}');
  await Deno.symlink(`${directory.path}/secret`, `${directory.path}/schema.json`);
  assertEquals((await findStaleTools(directory.path, [])).removed, []);
});
