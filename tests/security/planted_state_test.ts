/** What a repository that somebody made has in its `.ipybox` must not lead the host elsewhere. */
import { assertEquals, assertRejects } from "@std/assert";
import { beginWriting } from "../../src/sandbox/workspace.ts";
import { McpHost } from "../support/mcp_client.ts";
import { TempFolder } from "../support/temp_folder.ts";

Deno.test("a link in the place of the note empties and makes no file of the user's", async () => {
  await using home = await TempFolder.create();
  await using workspace = await TempFolder.create();
  await Deno.writeTextFile(`${home.path}/profile`, "of the user");
  await Deno.mkdir(`${workspace.path}/.ipybox`);
  const note = `${workspace.path}/.ipybox/code-ran`;
  for (const target of ["profile", "new"]) {
    await Deno.symlink(`${home.path}/${target}`, note);
    await beginWriting(workspace.path);
    await Deno.remove(note);
  }
  assertEquals(await Deno.readTextFile(`${home.path}/profile`), "of the user");
  const names = await Array.fromAsync(Deno.readDir(home.path), ({ name }) => name);
  assertEquals(names, ["profile"]);
});

Deno.test("a pipe in the place of the note holds nobody up", async () => {
  await using workspace = await TempFolder.create();
  await Deno.mkdir(`${workspace.path}/.ipybox`);
  const { success } = await new Deno.Command("mkfifo", {
    args: [`${workspace.path}/.ipybox/code-ran`],
  }).output();
  assertEquals(success, true);
  await beginWriting(workspace.path);
});

Deno.test("a link of a repository in mcptools shows no file of the user's to an MCP client", async () => {
  await using home = await TempFolder.create();
  await using workspace = await TempFolder.create();
  await Deno.writeTextFile(`${home.path}/settings.py`, 'PASSWORD = "of the user"');
  await Deno.mkdir(`${workspace.path}/mcptools`);
  await Deno.mkdir(`${workspace.path}/.ipybox`);
  const servers = { mcpServers: { foo: { command: "true" } } };
  await Deno.writeTextFile(`${workspace.path}/.ipybox/mcp.json`, JSON.stringify(servers));
  await Deno.symlink(home.path, `${workspace.path}/mcptools/foo`);
  await using host = await McpHost.start({ args: ["--workspace", workspace.path] });
  await assertRejects(() => host.read("mcptools://foo/settings.py"), Error, "mcptools://foo");
});
