import { assertThrows } from "@std/assert";
import { PinnedFolder } from "./pinned_folder.ts";

Deno.test("PinnedFolder.open() names the folder that cannot be created", () => {
  assertThrows(() => PinnedFolder.open("/proc/new"), Error, "mkdir '/proc/new'");
});
