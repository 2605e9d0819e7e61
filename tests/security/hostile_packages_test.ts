/** Generated packages that came with a repository, or that code of a workspace around it has filled. */
import { assert, assertEquals } from "@std/assert";
import { generatePackage } from "../../src/apigen/generate.ts";
import { TempFolder } from "../support/temp_folder.ts";

const LISTING = { tools: [{ name: "search", inputSchema: { type: "object" } }] };

Deno.test("a package's folder is not read beyond a limit, and what is in it stays", async () => {
  await using root = await TempFolder.create();
  await generatePackage("demo", LISTING, { rootDir: root.path });
  for (let at = 0; at < 100; at++) {
    using file = await Deno.create(`${root.path}/demo/${at}.bin`);
    await file.truncate(4 * 2 ** 20); // takes no room on the disk
  }
  const before = Deno.memoryUsage().heapUsed;
  let most = 0;
  const look = setInterval(() => {
    most = Math.max(most, Deno.memoryUsage().heapUsed - before);
  }, 5);
  const tools = [...LISTING.tools, { name: "other", inputSchema: { type: "object" } }];
  await generatePackage("demo", { tools }, { rootDir: root.path });
  clearInterval(look);
  assert(most < 200 * 2 ** 20, `${most}`);
  const names = await Array.fromAsync(Deno.readDir(`${root.path}/demo`), ({ name }) => name);
  assertEquals(names.filter((name) => name.endsWith(".bin")).length, 100);
  assert(names.includes("other.py"));
});
