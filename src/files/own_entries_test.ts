import { assertEquals } from "@std/assert";
import { TempFolder } from "../../tests/support/temp_folder.ts";
import { OwnEntries, ownRecords } from "./own_entries.ts";
import { stateFolder } from "./user_folders.ts";
import { nameFor } from "./workspace_folders.ts";

Deno.test("a damaged record accepts nothing", async () => {
  await using workspace = await TempFolder.create();
  const open = async () => await OwnEntries.open(workspace.path, "registrations");
  const name = nameFor(await Deno.realPath(workspace.path));
  const file = `${stateFolder()}/trust/${name}.json`;
  const damages: Record<string, (path: string) => Promise<void>> = {
    "no JSON": (path) => Deno.writeTextFile(path, "{"),
    "no UTF-8": (path) => Deno.writeFile(path, new Uint8Array([0xff, 0xfe])),
    "a list": (path) => Deno.writeTextFile(path, "[]"),
    "of another workspace": (path) => Deno.writeTextFile(path, '{"workspace": "/x", "own": {}}'),
    "too large": (path) => Deno.writeTextFile(path, " ".repeat(5 * 2 ** 20)),
    "a link": (path) => Deno.remove(path).then(() => Deno.symlink("/dev/zero", path)),
    "a folder": (path) => Deno.remove(path).then(() => Deno.mkdir(path)),
  };
  for (const [name, damage] of Object.entries(damages)) {
    await Deno.remove(file, { recursive: true }).catch(() => {});
    await (await open()).set("raw", { command: "x" });
    await damage(file);
    const own = await open();
    assertEquals([own.has("raw", { command: "x" }), own.exists], [false, true], name);
    await ownRecords(); // lists the others
  }
});
