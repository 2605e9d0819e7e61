import { assertEquals, assertRejects } from "@std/assert";
import { attack } from "../../tests/support/attacker.ts";
import { TempFolder } from "../../tests/support/temp_folder.ts";
import {
  listInside,
  openInside,
  PathError,
  pathParts,
  readInside,
  writeInside,
} from "./inside_folder.ts";

function stream(text: string): ReadableStream<Uint8Array> {
  return ReadableStream.from([new TextEncoder().encode(text)]);
}

async function read(root: string, path: string): Promise<string> {
  await using file = await openInside(root, pathParts(path));
  return await new Response(file.bytes).text();
}

Deno.test("writeInside() makes folders and replaces files, openInside() reads them", async () => {
  await using folder = await TempFolder.create();
  await writeInside(folder.path, pathParts("a/b/c.txt"), stream("first"));
  await writeInside(folder.path, pathParts("a/b/c.txt"), stream("second"));

  assertEquals(await read(folder.path, "a/b/c.txt"), "second");
  assertEquals((await Array.fromAsync(Deno.readDir(`${folder.path}/a/b`))).length, 1);
});

Deno.test("Nothing leads out of the folder: links, dots, and what is no file", async () => {
  await using outside = await TempFolder.create();
  await Deno.writeTextFile(`${outside.path}/secret`, "secret");
  await using folder = await TempFolder.create();
  await Deno.symlink(outside.path, `${folder.path}/dir`);
  await Deno.symlink(`${outside.path}/secret`, `${folder.path}/file`);
  await Deno.mkdir(`${folder.path}/real`);

  for (const path of ["dir/secret", "file", "real", "none", "real/none", "none/x"]) {
    await assertRejects(() => read(folder.path, path), PathError, undefined, path);
  }
  await assertRejects(
    () => writeInside(folder.path, pathParts("dir/new"), stream("x")),
    PathError,
    "is not a folder, or is a symbolic link",
  );
  await assertRejects(() => writeInside(folder.path, ["real"], stream("x")), PathError);
  await writeInside(folder.path, ["file"], stream("replaces the link itself"));
  assertEquals(await Deno.readTextFile(`${outside.path}/secret`), "secret");
  assertEquals((await Array.fromAsync(Deno.readDir(outside.path))).length, 1);
  assertEquals((await Array.fromAsync(Deno.readDir(`${folder.path}/real`))).length, 0);

  for (const path of ["", "/etc/passwd", "../x", "a/../b", "a//b", "a/.", "a\0b"]) {
    await assertRejects(async () => void await read(folder.path, path), PathError);
  }
});

Deno.test("listInside() lists a folder, follows no link, and refuses a flood", async () => {
  await using folder = await TempFolder.create();
  const { path } = folder;
  await writeInside(path, ["sub", "a.txt"], stream("hello"));
  await Deno.symlink("/etc", `${path}/sub/link`);
  const modified = (await Deno.stat(`${path}/sub/a.txt`)).mtime?.toISOString();
  const [sub] = await listInside(path, []);
  assertEquals([sub?.name, sub?.type, sub?.size], ["sub", "folder", 0]);
  const [file, link] = (await listInside(path, ["sub"])).sort((a, b) => a.name < b.name ? -1 : 1);
  assertEquals(file, { name: "a.txt", type: "file", size: 5, modified: modified ?? "" });
  assertEquals([link?.name, link?.type, link?.size], ["link", "link", 0]);

  await assertRejects(() => listInside(path, ["sub", "link"]), PathError, "symbolic link");
  await assertRejects(() => listInside(path, ["none"]), PathError, "does not exist");
  for (let i = 0; i < 10_001; i++) await Deno.writeTextFile(`${path}/sub/${i}`, "");
  await assertRejects(() => listInside(path, ["sub"]), PathError, "more than 10000 entries");
});

Deno.test("A write that fails in the middle leaves what was there", async () => {
  await using folder = await TempFolder.create();
  await writeInside(folder.path, ["a"], stream("old"));
  const broken = ReadableStream.from((async function* () {
    yield new TextEncoder().encode("half");
    await Promise.reject(new Error("cut off"));
  })());

  await assertRejects(() => writeInside(folder.path, ["a"], broken), Error, "cut off");

  assertEquals(await read(folder.path, "a"), "old");
  assertEquals((await Array.fromAsync(Deno.readDir(folder.path))).length, 1);
});

Deno.test("A pipe is refused at once, although nobody writes to it", async () => {
  await using folder = await TempFolder.create();
  const { success } = await new Deno.Command("mkfifo", { args: [`${folder.path}/pipe`] }).output();
  assertEquals(success, true);

  await assertRejects(() => read(folder.path, "pipe"), PathError, "is not a plain file");
});

Deno.test({
  name: "A file is closed that nobody began to read",
  ignore: Deno.build.os !== "linux", // the only system on which files are reached so
  async fn() {
    await using folder = await TempFolder.create();
    const path = `${folder.path}/a`;
    await Deno.writeTextFile(path, "x".repeat(200_000));
    const { bytes } = await openInside(folder.path, ["a"]);
    assertEquals(await isOpen(path), true);
    await bytes.cancel();
    assertEquals(await isOpen(path), false);
  },
});

/** Whether this process has the file open. */
async function isOpen(path: string): Promise<boolean> {
  const files = await Array.fromAsync(Deno.readDir("/proc/self/fd"), async ({ name }) => {
    return await Deno.readLink(`/proc/self/fd/${name}`).catch(() => ""); // that of this listing
  });
  return files.includes(path);
}

Deno.test("readInside() reads nothing else where a folder and a link change places", {
  ignore: Deno.build.os !== "linux",
}, async () => {
  await using outside = await TempFolder.create();
  await Deno.writeTextFile(`${outside.path}/api.py`, "of another folder");
  await using folder = await TempFolder.create();
  await writeInside(folder.path, ["real", "api.py"], stream("own"));
  await Deno.symlink(outside.path, `${folder.path}/link`);
  assertEquals(await readInside(folder.path, ["link", "api.py"], 100), undefined);
  assertEquals(await readInside(folder.path, ["real", "api.py"], 2), undefined); // it is larger

  const read = new Set<string>();
  {
    const places = [`${folder.path}/real`, `${folder.path}/link`];
    await using _swapper = await attack(["-c", SWAP.join("\n"), ...places]);
    for (let count = 0; count < 1000; count++) {
      const bytes = await readInside(folder.path, ["real", "api.py"], 100);
      read.add(new TextDecoder().decode(bytes));
    }
  }
  assertEquals([...read].filter((text) => text !== "" && text !== "own"), []);
});

/** Has two paths change places, again and again. */
const SWAP = [
  "import ctypes, os, sys",
  "libc = ctypes.CDLL(None)",
  "one, other = map(os.fsencode, sys.argv[1:])",
  "print('begun', flush=True)",
  "while libc.renameat2(-100, one, -100, other, 2) == 0: pass",
];
