import { assertEquals, assertRejects } from "@std/assert";
import { attack } from "../../tests/support/attacker.ts";
import { TempFolder } from "../../tests/support/temp_folder.ts";
import { ConfigError } from "../base/errors.ts";
import {
  isPlainFolder,
  openIfPresent,
  readHostileBytes,
  readHostileFile,
  readInside,
  replaceFile,
  replaceHostileFile,
} from "./safe.ts";

async function inFolder(test: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await test(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Does something over and over. */
function whileReading(act: (turn: number) => Promise<void>): { end: () => Promise<void> } {
  let ended = false;
  const turns = (async () => {
    for (let turn = 0; !ended; turn++) await act(turn);
  })();
  return {
    end: async () => {
      ended = true;
      await turns;
    },
  };
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

Deno.test("readHostileBytes() waits for no pipe that is put in a file's place", async () => {
  await inFolder(async (folder) => {
    const [path, plain, pipe] = [`${folder}/file`, `${folder}/plain`, `${folder}/pipe`];
    await Deno.writeTextFile(plain, "text");
    assertEquals((await new Deno.Command("mkfifo", { args: [pipe] }).output()).code, 0);
    const turns = whileReading(async (turn) => {
      await Deno.link(turn % 2 === 0 ? plain : pipe, `${folder}/next`);
      await Deno.rename(`${folder}/next`, path);
    });
    for (let reading = 0; reading < 1000; reading++) {
      const bytes = await readHostileBytes(path, 10);
      assertEquals([undefined, 4].includes(bytes?.length), true);
    }
    await turns.end();
  });
});

Deno.test("readHostileFile() reads what another process replaces all the time", async () => {
  await inFolder(async (folder) => {
    const path = `${folder}/file`;
    await replaceHostileFile(path, "0");
    const turns = whileReading((turn) => replaceHostileFile(path, `${turn}`));
    for (let reading = 0; reading < 300; reading++) {
      assertEquals(/^\d+$/.test(await readHostileFile(path) ?? ""), true);
    }
    await turns.end();
  });
});

Deno.test("readHostileFile() names a file that is in the place of a folder", async () => {
  await inFolder(async (folder) => {
    await Deno.writeTextFile(`${folder}/mcptools`, "");
    const read = () => readHostileFile(`${folder}/mcptools/server/schema.json`);
    const message = `Cannot use ${folder}/mcptools: it is not a folder. Remove it`;
    await assertRejects(read, ConfigError, message);
  });
});

Deno.test("openIfPresent() opens plain files only", async () => {
  await inFolder(async (folder) => {
    assertEquals(await openIfPresent(`${folder}/none`, { read: true }), undefined);
    await Deno.writeTextFile(`${folder}/plain`, "text");
    using file = await openIfPresent(`${folder}/plain`, { read: true });
    assertEquals((await file?.stat())?.size, 4);
    await Deno.symlink(`${folder}/plain`, `${folder}/link`);
    const link = () => openIfPresent(`${folder}/link`, { read: true });
    await assertRejects(link, ConfigError, "not a plain file");
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

Deno.test("replaceFile() leaves nothing where it fails", async () => {
  await inFolder(async (folder) => {
    await Deno.mkdir(`${folder}/taken/inside`, { recursive: true });
    await assertRejects(() => replaceFile(`${folder}/taken`, "text"));
    const names = (await Array.fromAsync(Deno.readDir(folder))).map(({ name }) => name);
    assertEquals(names, ["taken"]);
  });
});

Deno.test("readInside() reads nothing else where a folder and a link change places", {
  ignore: Deno.build.os !== "linux",
}, async () => {
  await using outside = await TempFolder.create();
  await Deno.writeTextFile(`${outside.path}/api.py`, "of another folder");
  await using folder = await TempFolder.create();
  await Deno.mkdir(`${folder.path}/real`);
  await Deno.writeTextFile(`${folder.path}/real/api.py`, "own");
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

/** Swaps two paths, again and again. */
const SWAP = [
  "import ctypes, os, sys",
  "libc = ctypes.CDLL(None)",
  "one, other = map(os.fsencode, sys.argv[1:])",
  "print('begun', flush=True)",
  "while libc.renameat2(-100, one, -100, other, 2) == 0: pass",
];
