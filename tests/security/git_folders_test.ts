/** Attacks by what code writes to the git folders of a workspace, which the host looks at before the next session. */
import { assertEquals } from "@std/assert";
import { findHidden } from "../../src/sandbox/hidden.ts";
import { hostPython } from "../../src/sandbox/wall.ts";
import { TempFolder } from "../support/temp_folder.ts";

Deno.test("code's settings of a submodule take no time to look at", async () => {
  await using folder = await TempFolder.create();
  const { path } = folder;
  await Deno.mkdir(`${path}/sub/.git/modules/sub`, { recursive: true });
  await Deno.writeTextFile(`${path}/.git`, "gitdir: sub/.git/modules/sub\n");
  await Deno.writeTextFile(`${path}/sub/.git/modules/sub/config`, "\n".repeat(1 << 16));
  const options = { python: await hostPython(path), signal: AbortSignal.timeout(5000) };
  assertEquals((await findHidden(path, options)).repository, []);
});
