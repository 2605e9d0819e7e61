import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { TempFolder } from "../../tests/support/temp_folder.ts";
import { findProgram, findPrograms, namedProgram, programOf, requireProgram } from "./program.ts";

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
  const planted = [
    `${root}/space/bin`, // the workspace
    `${root}/links/bin`, // a link into it
    `${root}/elsewhere/deep/bin`, // another workspace
    `${root}/project/node_modules/.bin`,
  ];
  const path = [...planted, "space/bin", ".", "", `${root}/tools`, `${root}/more`].join(":");
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

Deno.test("findProgram() passes over what other users could have put there", async () => {
  await using folder = await TempFolder.create();
  const root = await Deno.realPath(folder.path);
  const cases: readonly [name: string, folder: number, above: number, file: number, ok: boolean][] =
    [
      ["all", 0o777, 0o755, 0o755, false],
      ["sticky", 0o1777, 0o755, 0o755, false], // what is not there can be added
      ["above", 0o755, 0o777, 0o755, false],
      ["file", 0o755, 0o755, 0o777, false],
      ["above-sticky", 0o755, 0o1777, 0o755, true], // nobody can take our folder away
      ["own-group", 0o775, 0o755, 0o755, true],
    ];
  for (const [name, mode, aboveMode, fileMode, ok] of cases) {
    const file = await plant(`${root}/${name}/bin/uv`);
    await Deno.chmod(file, fileMode);
    await Deno.chmod(`${root}/${name}/bin`, mode);
    await Deno.chmod(`${root}/${name}`, aboveMode);
    const found = await findProgram("uv", { path: `${root}/${name}/bin` });
    assertEquals(found !== undefined, ok, name);
  }
  if (Deno.uid() !== 0) return; // nobody else can give a file away
  const file = await plant(`${root}/group/bin/uv`);
  await Deno.chown(`${root}/group/bin`, 65534, 65534);
  await Deno.chmod(`${root}/group/bin`, 0o775);
  assertEquals(await findProgram("uv", { path: `${root}/group/bin` }), undefined);
  await Deno.chmod(`${root}/group/bin`, 0o755); // the user chose to trust its owner
  assertEquals(String(await findProgram("uv", { path: `${root}/group/bin` })), file);
  const foreign = await plant(`${root}/shared/bin/uv`);
  await Deno.chmod(`${root}/shared`, 0o1777);
  await Deno.chown(`${root}/shared/bin`, 65534, 65534); // made first by another user
  assertEquals(await findProgram("uv", { path: foreign.slice(0, -"/uv".length) }), undefined);
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
