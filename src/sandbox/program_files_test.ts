import { assert, assertEquals } from "@std/assert";
import { TempFolder } from "../../tests/support/temp_folder.ts";
import { isBroad, pythonFolders } from "./installation.ts";
import { programFiles } from "./servers.ts";
import { namedProgram } from "../process/program.ts";

async function write(path: string, text = ""): Promise<void> {
  await Deno.mkdir(path.slice(0, path.lastIndexOf("/")), { recursive: true });
  await Deno.writeTextFile(path, text);
}

Deno.test("programFiles() finds a program's installation, and no more of the home directory", async () => {
  await using folder = await TempFolder.create();
  const home = folder.path;
  const node = `${home}/.nvm/versions/node/v22`;
  await write(`${node}/lib/node_modules/npm/bin/npx-cli.js`);
  await Deno.mkdir(`${node}/bin`);
  await Deno.symlink("../lib/node_modules/npm/bin/npx-cli.js", `${node}/bin/npx`);
  await write(`${home}/pythons/3.12/bin/python3.12`);
  await write(`${home}/venv/pyvenv.cfg`, `home = ${home}/pythons/3.12/bin\n`);
  await Deno.mkdir(`${home}/venv/bin`);
  await Deno.symlink(`${home}/pythons/3.12/bin/python3.12`, `${home}/venv/bin/python`);
  await write(`${home}/.local/bin/uvx`);
  await write(`${home}/bin/own`);
  const found = async (program: string) =>
    (await programFiles(namedProgram(program), home)).map((file) => file.slice(home.length)).sort();

  assertEquals(await found(`${node}/bin/npx`), [
    "/.nvm/versions/node/v22",
    "/.nvm/versions/node/v22/bin/npx",
    "/.nvm/versions/node/v22/lib/node_modules/npm",
    "/.nvm/versions/node/v22/lib/node_modules/npm/bin/npx-cli.js",
  ]);
  assertEquals(await found(`${home}/venv/bin/python`), [
    "/pythons/3.12",
    "/pythons/3.12/bin/python3.12",
    "/venv",
    "/venv/bin/python",
  ]);
  assertEquals(await found(`${home}/.local/bin/uvx`), ["/.local/bin/uvx"]);
  assertEquals(await found(`${home}/bin/own`), ["/bin/own"]);
  assertEquals(await found(`${home}/bin/missing`), []);
});

Deno.test("isBroad() knows the home directory, what is above it, and what many share", () => {
  for (const folder of ["/", "/home", "/home/me", "/home/me/.local", "/tmp", "/etc"]) {
    assertEquals(isBroad(folder, "/home/me"), true, folder);
  }
  for (const folder of ["/home/me/work", "/usr", "/home/you/x", "/tmp/x"]) {
    assertEquals(isBroad(folder, "/home/me"), false, folder);
  }
});

Deno.test("pythonFolders() shows no home directory, and no other projects, of a Python that is there", async () => {
  await using folder = await TempFolder.create();
  const home = `${folder.path}/home`;
  await write(`${home}/.ssh/id_ed25519`);
  await write(`${home}/lib/python3.12/os.py`);
  await Deno.mkdir(`${home}/bin`);
  await Deno.mkdir(`${home}/projects/own`, { recursive: true });
  await Deno.symlink(home, `${folder.path}/link`);
  const own = `${home}/projects/own`;
  const parts = [`${home}/bin`, `${home}/lib`];

  assert(isBroad(home, `${folder.path}/link`));
  assertEquals(await pythonFolders(home, own, home), parts);
  assertEquals(await pythonFolders(home, "/elsewhere", `${folder.path}/link`), parts);
  assertEquals(await pythonFolders(home, own, "/home/me"), parts);
  assertEquals(await pythonFolders(home, "/elsewhere", "/home/me"), [home]);
  assertEquals(await pythonFolders(home, home, "/home/me"), [home]); // a workspace is readable
});
