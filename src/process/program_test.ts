import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { TempFolder } from "../../tests/support/temp_folder.ts";
import { findProgram, findPrograms, namedProgram, programOf, requireProgram } from "./program.ts";
import { trustedPath } from "./trusted_path.ts";

async function plant(path: string, mode = 0o755): Promise<string> {
  await Deno.mkdir(path.slice(0, path.lastIndexOf("/")), { recursive: true });
  await Deno.writeTextFile(path, "#!/bin/sh\n", { mode });
  return path;
}

const NAMES = "bwrap socat rg srt deno python3 uv npx sudo env apt-get xdg-open".split(" ");

Deno.test("findProgram() passes over what executed code could have put there", async () => {
  await using folder = await TempFolder.create();
  const root = await Deno.realPath(folder.path);
  await Deno.mkdir(`${root}/elsewhere/.ipybox`, { recursive: true });
  await Deno.mkdir(`${root}/links`);
  await Deno.symlink(`${root}/space/bin`, `${root}/links/bin`);
  await Deno.mkdir(`${root}/space`);
  await Deno.symlink(`${root}/more`, `${root}/space/out`);
  await Deno.symlink(`${root}/space/out`, `${root}/links/through`);
  const planted = [
    `${root}/space/bin`, // the workspace
    `${root}/links/bin`, // a link into it
    `${root}/elsewhere/deep/bin`, // another workspace
    `${root}/project/node_modules/.bin`,
  ];
  // Code can change where the last leads.
  const path = [
    ...planted,
    `${root}/links/through`,
    "space/bin",
    ".",
    "",
    `${root}/tools`,
    `${root}/more`,
  ].join(":");
  for (const name of NAMES) {
    for (const where of planted) if (where !== `${root}/links/bin`) await plant(`${where}/${name}`);
    // A link in a good folder to what code can change, at the end or on the way.
    await Deno.mkdir(`${root}/tools`, { recursive: true });
    await Deno.symlink(`${root}/space/bin/${name}`, `${root}/tools/${name}`);
    const good = await plant(`${root}/more/${name}`);

    const search = { path, untrusted: [`${root}/space`] };
    assertEquals(String(await findProgram(name, search)), good);
    assertEquals((await Array.fromAsync(findPrograms(name, search))).map(String), [good]);
  }
});

Deno.test("findProgram() searches no folder that everybody can write to, and judges no other", async () => {
  await using folder = await TempFolder.create();
  const root = await Deno.realPath(folder.path);
  const cases: readonly [name: string, mode: number, above: number, ok: boolean][] = [
    ["all", 0o777, 0o755, false],
    ["sticky", 0o1777, 0o755, false], // what is not there can be added
    ["above", 0o755, 0o777, true],
    ["group", 0o2775, 0o775, true],
  ];
  for (const [name, mode, above, ok] of cases) {
    await plant(`${root}/${name}/bin/uv`);
    await Deno.chmod(`${root}/${name}/bin`, mode);
    await Deno.chmod(`${root}/${name}`, above);
    if (Deno.uid() === 0) await Deno.chown(`${root}/${name}/bin`, 65534, 65534); // a team's
    const found = await findProgram("uv", { path: `${root}/${name}/bin` });
    assertEquals(found !== undefined, ok, name);
  }
});

Deno.test("findProgram() passes over a link that leads nowhere", async () => {
  await using folder = await TempFolder.create();
  const root = await Deno.realPath(folder.path);
  await Deno.symlink(`${root}/loop`, `${root}/loop`);
  const good = await plant(`${root}/bin/uv`);
  assertEquals(String(await findProgram("uv", { path: `${root}/loop:${root}/bin` })), good);
  assertEquals(await trustedPath(`${root}/loop:${root}/bin`), `${root}/bin`);
});

Deno.test("requireProgram() says what it left alone, and why", async () => {
  await using folder = await TempFolder.create();
  const root = await Deno.realPath(folder.path);
  await plant(`${root}/space/bin/uv`);
  await plant(`${root}/project/node_modules/.bin/uv`);
  await plant(`${root}/plain/uv`, 0o644); // no program
  const path = ["space/bin", "project/node_modules/.bin", "plain"].map((x) => `${root}/${x}`)
    .join(":");
  const error = await assertRejects(
    () => requireProgram("uv", { path, untrusted: [`${root}/space`] }),
    Deno.errors.NotFound,
  );
  assertEquals(
    error.message,
    `uv is not on the PATH; ${root}/space/bin/uv is not run: executed code can write to ` +
      `${root}/space; ${root}/project/node_modules/.bin/uv is not run: ` +
      `${root}/project/node_modules/.bin belongs to a project`,
  );
});

Deno.test("programOf() takes a path as it is, and looks for a name", async () => {
  assertEquals(String(await programOf("/no/such/python")), "/no/such/python");
  assertEquals(String(await programOf("./x", { folder: "/a/b" })), "/a/b/x");
  assertEquals(String(await programOf("sh", { path: "/nowhere:/bin" })), "/bin/sh");
  assertThrows(() => namedProgram("sh"), TypeError);
  await assertRejects(() => findProgram("../sh"), TypeError);
});
