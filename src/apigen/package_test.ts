import { assert, assertEquals, assertRejects } from "@std/assert";
import { ConfigError } from "../base/errors.ts";
import { TempFolder } from "../../tests/support/temp_folder.ts";
import { generatePackage } from "./generate.ts";
import { compareTools, readPackage, writeFolder, type WriteOptions } from "./package.ts";

const options: WriteOptions = { isGenerated: (name) => name.endsWith(".py") };

async function tree(folder: string): Promise<Record<string, string>> {
  const files: Record<string, string> = {};
  for await (const { name, isFile } of Deno.readDir(folder)) {
    files[name] = isFile ? await Deno.readTextFile(`${folder}/${name}`) : "…";
  }
  return files;
}

Deno.test("writeFolder() makes the folder and leaves nothing else behind", async () => {
  await using directory = await TempFolder.create();
  const root = `${directory.path}/new/root`;

  await writeFolder(root, "demo", new Map([["a.py", "1"], ["b.py", "2"]]), options);

  assertEquals(await tree(`${root}/demo`), { "a.py": "1", "b.py": "2" });
  assertEquals(await directory.list("new/root"), ["demo"]);
});

Deno.test("writeFolder() drops what is not generated any more and keeps what is the user's", async () => {
  await using directory = await TempFolder.create();
  await writeFolder(directory.path, "demo", new Map([["a.py", "1"], ["b.py", "2"]]), options);
  await Deno.writeTextFile(`${directory.path}/demo/notes.txt`, "mine");
  await Deno.mkdir(`${directory.path}/demo/data`);

  await writeFolder(directory.path, "demo", new Map([["a.py", "3"]]), options);

  assertEquals(await tree(`${directory.path}/demo`), {
    "a.py": "3",
    "notes.txt": "mine",
    "data": "…",
  });
  assertEquals(await directory.list(), ["demo"]);
});

Deno.test("writeFolder() writes nothing when nothing changed, and keeps the time of files that did not", async () => {
  await using directory = await TempFolder.create();
  const file = (name: string) => `${directory.path}/demo/${name}`;
  await writeFolder(directory.path, "demo", new Map([["a.py", "1"], ["b.py", "2"]]), options);
  const past = new Date("2020-01-01");
  for (const name of ["a.py", "b.py"]) await Deno.utime(file(name), past, past);
  const before = await Deno.stat(file("a.py"));

  await writeFolder(directory.path, "demo", new Map([["a.py", "1"], ["b.py", "2"]]), options);
  assertEquals((await Deno.stat(file("a.py"))).ino, before.ino);

  await writeFolder(directory.path, "demo", new Map([["a.py", "1"], ["b.py", "changed"]]), options);
  assertEquals((await Deno.stat(file("a.py"))).mtime, past);
  assert(((await Deno.stat(file("b.py"))).mtime ?? past) > past);
});

Deno.test("writeFolder() leaves the old folder when it fails", async () => {
  await using directory = await TempFolder.create();
  await writeFolder(directory.path, "demo", new Map([["a.py", "1"]]), options);

  await assertRejects(() =>
    writeFolder(
      directory.path,
      "demo",
      new Map([["a.py", "2"], ["no/such/folder.py", "3"]]),
      options,
    )
  );

  assertEquals(await tree(`${directory.path}/demo`), { "a.py": "1" });
  assertEquals(await directory.list(), ["demo"]);
});

Deno.test("writeFolder() goes through no symbolic link", async () => {
  await using directory = await TempFolder.create();
  const { path } = directory;
  await Deno.mkdir(`${path}/elsewhere`);
  await Deno.writeTextFile(`${path}/elsewhere/a.py`, "theirs");
  await Deno.mkdir(`${path}/root`);
  await Deno.symlink(`${path}/elsewhere`, `${path}/root/demo`);
  await Deno.symlink(`${path}/elsewhere`, `${path}/link`);

  const files = new Map([["a.py", "ours"]]);
  await assertRejects(
    () => writeFolder(`${path}/root`, "demo", files, options),
    ConfigError,
    "symbolic link",
  );
  await assertRejects(
    () => writeFolder(`${path}/link`, "demo", files, options),
    ConfigError,
    "symbolic link",
  );
  assertEquals(await tree(`${path}/elsewhere`), { "a.py": "theirs" });

  await Deno.mkdir(`${path}/root/other`);
  await Deno.symlink(`${path}/elsewhere/a.py`, `${path}/root/other/a.py`);
  await writeFolder(`${path}/root`, "other", files, options);
  assertEquals(await tree(`${path}/root/other`), { "a.py": "ours" });
  assertEquals(await tree(`${path}/elsewhere`), { "a.py": "theirs" });
});

Deno.test("writeFolder() lets writers of the same folder take turns", async () => {
  await using directory = await TempFolder.create();
  const texts = ["1", "2", "3", "4"];

  await Promise.all(
    texts.map((text) => writeFolder(directory.path, "demo", new Map([["a.py", text]]), options)),
  );

  assertEquals(await tree(`${directory.path}/demo`), { "a.py": "4" });
  assertEquals(await directory.list(), ["demo"]);
});

Deno.test("compareTools() tells what changed since a package was generated", async () => {
  await using directory = await TempFolder.create();
  const { path: rootDir } = directory;
  const tool = (name: string, inputSchema: unknown) => ({ name, inputSchema });
  const tools = [tool("same", { type: "object", title: "t" }), tool("other", {}), tool("gone", {})];
  await generatePackage("demo", { tools }, { rootDir });

  const now = [
    tool("same", { title: "t", type: "object" }),
    tool("other", { type: "object" }),
    tool("new", {}),
  ];

  const before = await readPackage(rootDir, "demo") ?? [];
  assertEquals(await compareTools(before.map(({ definition }) => definition), now), {
    changed: ["other"],
    added: ["new"],
    removed: ["gone"],
  });
});

Deno.test("readPackage() reads nothing but a file", async () => {
  await using directory = await TempFolder.create();
  await Deno.writeTextFile(`${directory.path}/secret`, '{"tools": [{"name": "a"}]}');
  await Deno.mkdir(`${directory.path}/demo`);
  await Deno.symlink(`${directory.path}/secret`, `${directory.path}/demo/schema.json`);
  await assertRejects(() => readPackage(directory.path, "demo"), ConfigError, "not a plain file");
});
