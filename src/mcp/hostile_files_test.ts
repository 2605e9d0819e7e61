import { assertEquals, assertRejects } from "@std/assert";
import { ConfigError } from "../errors.ts";
import { isPlainFolder, readHostileFile, replaceHostileFile } from "./hostile_files.ts";

async function inFolder(test: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await test(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("readHostileFile() reads plain files and nothing through links", async () => {
  await inFolder(async (folder) => {
    assertEquals(await readHostileFile(`${folder}/none`), undefined);
    await Deno.writeTextFile(`${folder}/plain`, "text");
    assertEquals(await readHostileFile(`${folder}/plain`), "text");
    await Deno.symlink(`${folder}/plain`, `${folder}/link`);
    await assertRejects(() => readHostileFile(`${folder}/link`), ConfigError, "not a plain file");
    await assertRejects(() => readHostileFile(folder), ConfigError, "not a plain file");
    await Deno.truncate(`${folder}/plain`, 5 * 2 ** 20);
    await assertRejects(() => readHostileFile(`${folder}/plain`), ConfigError, "4 MiB");
  });
});

Deno.test("replaceHostileFile() replaces a link itself, and writes for the owner only", async () => {
  await inFolder(async (folder) => {
    await Deno.writeTextFile(`${folder}/outside`, "mine");
    await replaceHostileFile(`${folder}/made/file`, "1");
    await Deno.remove(`${folder}/made/file`);
    await Deno.symlink(`${folder}/outside`, `${folder}/made/file`);
    await replaceHostileFile(`${folder}/made/file`, "2");
    assertEquals(await Deno.readTextFile(`${folder}/outside`), "mine");
    assertEquals(await Deno.readTextFile(`${folder}/made/file`), "2");
    assertEquals((await Deno.stat(`${folder}/made/file`)).mode! & 0o777, 0o600);
    assertEquals((await Array.fromAsync(Deno.readDir(`${folder}/made`))).length, 1);
  });
});

Deno.test("replaceHostileFile() does not write into a folder that is a link", async () => {
  await inFolder(async (folder) => {
    await Deno.mkdir(`${folder}/elsewhere`);
    await Deno.symlink(`${folder}/elsewhere`, `${folder}/link`);
    await assertRejects(() => replaceHostileFile(`${folder}/link/file`, "x"), ConfigError);
    await assertRejects(() => isPlainFolder(`${folder}/link`), ConfigError, "not a plain folder");
    assertEquals((await Array.fromAsync(Deno.readDir(`${folder}/elsewhere`))).length, 0);
  });
});
