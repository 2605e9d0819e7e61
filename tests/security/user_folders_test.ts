/** Logins, and the settings for all workspaces, are in nobody's reach but the host's. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { TempFolder } from "../support/temp_folder.ts";

const fixture = fileURLToPath(new URL("../fixtures/user_folders.ts", import.meta.url));
const reportSchema = z.object({ refused: z.array(z.string()), output: z.array(z.string()) });

Deno.test("no workspace has the user's folders in it, and no server's settings open them", async (t) => {
  await using user = await TempFolder.create();
  await using scratch = await TempFolder.create();
  const path = await Deno.realPath(user.path);
  await Deno.mkdir(`${path}/state/ipybox/logins`, { recursive: true });
  await Deno.writeTextFile(`${path}/state/ipybox/logins/one.json`, "TOKEN");
  await Deno.mkdir(`${path}/config/ipybox`, { recursive: true });
  await Deno.writeTextFile(`${path}/config/ipybox/policy.json`, "POLICY");
  await Deno.mkdir(`${path}/dotfiles`);
  const run = async (config: string, ...workspaces: string[]) => {
    const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--quiet", fixture, scratch.path, ...workspaces],
      env: {
        XDG_STATE_HOME: `${path}/state`,
        XDG_CONFIG_HOME: config,
        XDG_CACHE_HOME: `${path}/cache`,
      },
    }).output();
    assertEquals(code, 0, new TextDecoder().decode(stderr));
    return reportSchema.parse(JSON.parse(new TextDecoder().decode(stdout)));
  };

  await t.step("they are found where they are, and where a link leads", async () => {
    await Deno.symlink(`${path}/dotfiles`, `${path}/linked`); // without ipybox in it
    await Deno.mkdir(`${path}/cache`);
    const workspaces = ["state", "dotfiles", "config", "cache"].map((name) => `${path}/${name}`);
    const { refused } = await run(`${path}/linked`, ...workspaces);
    assertMatch(refused[0] ?? "", /^Cannot use .*: logins to MCP servers are stored in /);
    assertMatch(
      refused[1] ?? "",
      /^Cannot use .*: the user's settings for all workspaces are stored/,
    );
    assertEquals(refused[2], "");
    assertMatch(
      refused[3] ?? "",
      /^Cannot use .*: packages of all workspaces, and ipybox's own files, are stored in /,
    );
    for await (const { name } of Deno.readDir(scratch.path)) {
      await Deno.remove(`${scratch.path}/${name}`, { recursive: true });
    }
  });

  await t.step("a server that may write all around them sees nothing of them", async () => {
    const { output } = await run(`${path}/config`);
    assertEquals(output.length, 2);
    for (const text of output) {
      assertStringIncludes(text, "seen"); // what is beside them is open
      assert(!/TOKEN|POLICY/.test(text), text);
    }
    assertEquals(await Deno.readTextFile(`${path}/config/ipybox/policy.json`), "POLICY");
    assertEquals(await Deno.readTextFile(`${path}/state/ipybox/logins/one.json`), "TOKEN");
  });
});
