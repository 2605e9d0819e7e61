import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { join } from "node:path";
import { ArtifactFolder } from "./artifact_folder.ts";
import { swapFolder } from "../../tests/support/attacker.ts";
import { settlePath } from "./pinned_folder.ts";

async function inTempDir(test: (directory: string) => Promise<void> | void): Promise<void> {
  const directory = await Deno.makeTempDir();
  try {
    await test(directory);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

Deno.test("ArtifactFolder is created with its first file, which has a unique name", () =>
  inTempDir((directory) => {
    const path = join(directory, "a", "images");
    const folder = new ArtifactFolder(path);
    assertThrows(() => Deno.statSync(path), Deno.errors.NotFound);
    const files = Array.from({ length: 50 }, () => folder.write("png", new Uint8Array([1, 2])));
    assertEquals(new Set(files).size, 50);
    for (const file of files) assertMatch(file, /\/a\/images\/[0-9a-f]{8}\.png$/);
    assertEquals(Deno.readFileSync(files[0]!), new Uint8Array([1, 2]));
    folder.remove(files[0]!);
    assertThrows(() => Deno.statSync(files[0]!), Deno.errors.NotFound);
  }));

Deno.test("ArtifactFolder writes nothing elsewhere while its place is being swapped for a link", () =>
  inTempDir(async (directory) => {
    const images = join(directory, "images");
    const secret = join(directory, "secret");
    await Deno.mkdir(secret);
    await Deno.mkdir(images);
    let written = 0;
    {
      await using _swapper = await swapFolder(images, secret);
      const folder = new ArtifactFolder(images);
      for (let tries = 0; tries < 20000; tries++) {
        try {
          folder.write("png", new Uint8Array([1, 2, 3]));
          written++;
        } catch {
          // It was seen: that is what the test is about.
        }
      }
    }
    for await (const { name } of Deno.readDir(secret)) {
      assertEquals((await Deno.stat(join(secret, name))).size, 0, name);
    }
    assert(written > 0, "Nothing could be written at all");
  }));

Deno.test("ArtifactFolder does not write through a symbolic link", async (t) => {
  await t.step("in its own place", () =>
    inTempDir((directory) => {
      const folder = new ArtifactFolder(join(directory, "images"));
      Deno.mkdirSync(join(directory, "secret"));
      Deno.symlinkSync(join(directory, "secret"), join(directory, "images"));
      assertThrows(() => folder.write("png", new Uint8Array(1)), Error, "is a symbolic link");
      assertEquals([...Deno.readDirSync(join(directory, "secret"))], []);
    }));

  await t.step("above it, put there later", () =>
    inTempDir((directory) => {
      Deno.mkdirSync(join(directory, "a"));
      Deno.mkdirSync(join(directory, "secret"));
      const folder = new ArtifactFolder(join(directory, "a", "images"));
      folder.write("png", new Uint8Array(1));
      Deno.removeSync(join(directory, "a"), { recursive: true });
      Deno.symlinkSync(join(directory, "secret"), join(directory, "a"));
      assertThrows(() => folder.write("png", new Uint8Array(1)), Error, "is a symbolic link");
      assertEquals([...Deno.readDirSync(join(directory, "secret"))].map(({ name }) => name), []);
    }));
});

Deno.test("ArtifactFolder follows no link, as code's can lead through thousands of folders", () =>
  inTempDir((directory) => {
    const images = join(directory, "images");
    const folder = new ArtifactFolder(images);
    folder.write("png", new Uint8Array(1));
    Deno.renameSync(images, join(directory, "moved"));
    Deno.symlinkSync("moved", images);
    const { realPathSync } = Deno;
    using restored = new DisposableStack();
    restored.defer(() => void Object.assign(Deno, { realPathSync }));
    Object.assign(Deno, { realPathSync: () => assert(false, "It was followed") });
    assertThrows(() => folder.write("png", new Uint8Array(1)), Error, "is a symbolic link");
  }));

Deno.test("ArtifactFolder follows no link in a workspace that code of an earlier session has made", () =>
  inTempDir(async (directory) => {
    const workspace = join(await Deno.realPath(directory), "workspace");
    await Deno.mkdir(workspace);
    await Deno.mkdir(join(directory, "elsewhere"));
    settlePath(workspace);
    await Deno.symlink(join(directory, "elsewhere"), join(workspace, "out"));
    const folder = new ArtifactFolder(join(workspace, "out", "images"));
    assertThrows(() => folder.write("svg", new Uint8Array([1])), Error, "out is a symbolic link");
    assertEquals(await Array.fromAsync(Deno.readDir(join(directory, "elsewhere"))), []);
  }));
