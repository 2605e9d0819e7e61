/** What a repository that somebody made has in its `.ipybox` must not lead the host elsewhere. */
import { assertEquals, assertRejects } from "@std/assert";
import { ConfigError } from "../../src/base/errors.ts";
import { makeOwnFolders, noteAbsentDotenv } from "../../src/sandbox/protect.ts";
import { hasOwnGroup } from "../../src/sandbox/wall.ts";
import { McpHost } from "../support/mcp_client.ts";
import { testIf } from "../support/skip.ts";
import { TempFolder } from "../support/temp_folder.ts";

Deno.test("a link in the place of a note empties and makes no file of the user's", async () => {
  await using home = await TempFolder.create();
  await using workspace = await TempFolder.create();
  await Deno.writeTextFile(`${home.path}/profile`, "of the user");
  await Deno.mkdir(`${workspace.path}/.ipybox`);
  for (const target of ["profile", "new"]) {
    const note = `${workspace.path}/.ipybox/no-dotenv`;
    await Deno.symlink(`${home.path}/${target}`, note);
    await noteAbsentDotenv(workspace.path);
    await Deno.remove(note);
  }
  assertEquals(await Deno.readTextFile(`${home.path}/profile`), "of the user");
  const names = await Array.fromAsync(Deno.readDir(home.path), ({ name }) => name);
  assertEquals(names, ["profile"]);
});

Deno.test("a pipe in the place of a note holds nobody up", async () => {
  await using workspace = await TempFolder.create();
  await Deno.mkdir(`${workspace.path}/.ipybox`);
  const { success } = await new Deno.Command("mkfifo", {
    args: [`${workspace.path}/.ipybox/no-dotenv`],
  }).output();
  assertEquals(success, true);
  await noteAbsentDotenv(workspace.path);
});

testIf(Deno.uid() === 0, "only root can give folders to other users", {
  name: "a .ipybox that another user made in an open workspace is not used",
  fn: async () => {
    await using workspace = await TempFolder.create();
    const state = `${workspace.path}/.ipybox`;
    await Deno.mkdir(state);
    await Deno.chown(state, 65534, 65534);
    for (const mode of [0o1777, 0o2775]) {
      await Deno.chmod(workspace.path, mode);
      await assertRejects(
        () => makeOwnFolders(workspace.path),
        ConfigError,
        `${state} belongs to another user, who could have made it because others can create files`,
      );
    }
    await Deno.chown(workspace.path, 65534, 65534); // as in a container: all of it is one user's
    await Deno.chmod(workspace.path, 0o755);
    await makeOwnFolders(workspace.path);
  },
});

testIf(Deno.uid() === 0, "only root can give folders to other users", {
  name: "code may open files to a group only if nobody else is in it",
  fn: async () => {
    await using folder = await TempFolder.create();
    const of = async (uid: number, gid: number) => {
      await Deno.chown(folder.path, uid, gid);
      return await hasOwnGroup(folder.path);
    };
    assertEquals(await of(4242, 4242), true); // each user has a group of that number
    assertEquals(await of(4242, 0), true);
    assertEquals(await of(4242, 4243), false); // a group that nobody knows
    const [, , , daemon] = (await Deno.readTextFile("/etc/passwd")).split("\n")
      .map((line) => line.split(":")).find(([name]) => name === "daemon") ?? [];
    assertEquals(await of(4242, Number(daemon)), false); // another user's
  },
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
