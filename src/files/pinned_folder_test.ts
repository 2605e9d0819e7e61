import { assertRejects } from "@std/assert";
import { PinnedFolder } from "./pinned_folder.ts";

Deno.test("PinnedFolder.open() names the folder that cannot be created", async () => {
  await assertRejects(() => PinnedFolder.open("/proc/new"), Error, "mkdir '/proc/new'");
});
