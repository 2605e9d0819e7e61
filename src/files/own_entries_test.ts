import { assertEquals } from "@std/assert";
import { TempFolder } from "../../tests/support/temp_folder.ts";
import { OwnEntries } from "./own_entries.ts";

Deno.test("a damaged record accepts nothing", async () => {
  await using state = await TempFolder.create();
  await using workspace = await TempFolder.create();
  const open = async () => await OwnEntries.open(workspace.path, "registrations", state.path);
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
    await Deno.remove(`${state.path}/trust`, { recursive: true }).catch(() => {});
    await (await open()).set("raw", { command: "x" });
    const [file = ""] = await files(`${state.path}/trust`);
    await damage(`${state.path}/trust/${file}`);
    const own = await open();
    assertEquals([own.has("raw", { command: "x" }), own.exists], [false, true], name);
  }
});

async function files(folder: string): Promise<string[]> {
  const names = await Array.fromAsync(Deno.readDir(folder), ({ name }) => name);
  return names.filter((name) => name.endsWith(".json"));
}
