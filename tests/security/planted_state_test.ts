/** What a repository that somebody made has in its `.ipybox` must not lead the host elsewhere. */
import { assertEquals, assertRejects } from "@std/assert";
import { AuditFolder } from "../../src/approval/audit/folder.ts";
import { ToolRunner } from "../../src/calls/runner.ts";
import { beginWriting } from "../../src/sandbox/workspace.ts";
import { ipybox } from "../support/cli.ts";
import { rawServer } from "../support/mcp.ts";
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

Deno.test("a log of calls that came with a repository, or from code of a workspace around it, is not the user's", async () => {
  await using workspace = await TempFolder.create();
  await using state = await TempFolder.create();
  {
    const options = { servers: { raw: rawServer() }, approval: "allow" } as const;
    await using runner = await ToolRunner.start({ workspace: workspace.path, ...options });
    await runner.run("raw", "count");
  }
  const { path } = await AuditFolder.find(workspace.path);
  await Deno.mkdir(`${workspace.path}/.ipybox`, { recursive: true });
  await Deno.copyFile(`${path}/audit.jsonl`, `${workspace.path}/.ipybox/audit.jsonl`);
  const env = { XDG_STATE_HOME: state.path };
  for (const command of [["run", "-c", "1"], ["audit"]]) {
    const { stdout } = await ipybox([...command, "--workspace", workspace.path], { env });
    assertEquals(stdout, command[0] === "audit" ? "" : "1\n");
  }
});
