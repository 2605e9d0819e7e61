import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { ipybox } from "../support/cli.ts";
import { TempFolder } from "../support/temp_folder.ts";

Deno.test("ipybox where prints the folders, and gives a moved workspace its state back", async () => {
  await using folder = await TempFolder.create();
  const env = { XDG_STATE_HOME: `${folder.path}/state`, XDG_CACHE_HOME: `${folder.path}/cache` };
  const old = `${folder.path}/old`;
  await Deno.mkdir(old);
  const before = await ipybox(["where"], { cwd: old, env });
  assertEquals(before.code, 0, before.stderr);
  const [, state = ""] = /^state +(.*)$/m.exec(before.stdout) ?? [];
  assertStringIncludes(state, `${folder.path}/state/ipybox/workspaces/`);
  for (
    const [name, place] of [["settings", `${old}/.ipybox`], ["cache", `${folder.path}/cache/`]]
  ) {
    assertMatch(before.stdout, new RegExp(`^${name} +${place}`, "m"));
  }
  await Deno.mkdir(state, { recursive: true });
  await Deno.writeTextFile(`${state}/workspace`, old);
  await Deno.writeTextFile(`${state}/consents.json`, '{"version": 1, "consents": []}');

  const moved = `${folder.path}/moved`;
  const adopt = (path: string) => ipybox(["where", "--adopt", path], { cwd: moved, env });
  await Deno.mkdir(moved);
  assertMatch((await adopt(old)).stderr, /still exists/);
  await Deno.remove(old);
  const adopted = await adopt("../old");
  assertEquals(adopted.code, 0, adopted.stderr);
  const [, fresh = ""] = /^state +(.*)$/m.exec(adopted.stdout) ?? [];
  assertEquals((await Deno.readTextFile(`${fresh}/workspace`)).split("\n")[0], moved);
  await Deno.stat(`${fresh}/consents.json`);
  const again = await adopt(old);
  assertEquals(again.code, 2);
  assertStringIncludes(again.stderr, `no state of a workspace at "${old}"`);
});
