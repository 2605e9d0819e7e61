import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import { TempFolder } from "../../tests/support/temp_folder.ts";
import { ConfigError } from "../base/errors.ts";
import { makeOwnFolders, refuseUnfit } from "./workspace.ts";

Deno.test("makeOwnFolders() makes the host's folders, and accepts nothing else in their place", async () => {
  await using workspace = await TempFolder.create();
  await makeOwnFolders(workspace.path);
  await makeOwnFolders(workspace.path);
  const mode = (await Deno.stat(`${workspace.path}/.ipybox`)).mode ?? 0;
  assertEquals(mode & 0o777, 0o700);

  await Deno.remove(`${workspace.path}/mcptools`);
  await Deno.symlink("/tmp", `${workspace.path}/mcptools`);
  await assertRejects(() => makeOwnFolders(workspace.path), ConfigError, "symbolic link");
  const error = await assertRejects(() => makeOwnFolders("/proc"), ConfigError);
  assertMatch(
    error.message,
    /^Workspace "\/proc" cannot be written to: .+: mkdir '\/proc\/\.ipybox'\. .*ipybox mcp --project$/,
  );
});

Deno.test({
  name: "refuseUnfit() refuses a workspace in /dev, of which the sandbox has its own",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    await assertRejects(() => refuseUnfit("/dev/shm/space"), ConfigError, "its own /dev");
  },
});
