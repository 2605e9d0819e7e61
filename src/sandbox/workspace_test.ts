import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import { TempFolder } from "../../tests/support/temp_folder.ts";
import { ConfigError } from "../base/errors.ts";
import { foreignDotenv, makeOwnFolders, refuseUnfit } from "./workspace.ts";

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
    await assertRejects(() => refuseUnfit("/dev/shm/space"), ConfigError, "/dev of its own");
  },
});

Deno.test("foreignDotenv() says whose code may have written the .env, and what to do", async () => {
  await using outer = await TempFolder.create();
  const inner = `${outer.path}/inner`;
  for (const folder of [`${inner}/.ipybox`, `${outer.path}/.ipybox`]) {
    await Deno.mkdir(folder, { recursive: true });
  }
  assertEquals(await foreignDotenv(inner), undefined); // no code has run anywhere
  await Deno.writeTextFile(`${outer.path}/.ipybox/code-ran`, "");
  assertMatch(
    await foreignDotenv(inner) ?? "",
    /^code that ran in .*If no code runs there any more: /,
  );
  assertEquals(await foreignDotenv(outer.path), undefined);
  await Deno.writeTextFile(`${inner}/.ipybox/no-dotenv`, "");
  assertMatch(await foreignDotenv(inner) ?? "", /^code that ran here .*: rm '.*\/no-dotenv'$/);
});
