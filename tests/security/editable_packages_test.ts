/**
 * What code could write where a Python of the user's imports from: an environment names the folder of each
 * project that is installed as editable, and that is often the workspace.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { locatePython } from "../../src/place/python_files.ts";
import { readIndexSettings } from "../../src/python/indexes.ts";
import { inspectInterpreter } from "../../src/python/interpreter.ts";
import { namedProgram } from "../../src/process/program.ts";
import { TestExecutor } from "../support/executor.ts";
import { testPython } from "../support/python.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { rejection } from "../support/wait.ts";

/** A workspace, an environment that has it installed as editable, and where planted modules say that they ran. */
async function makePlaces(folder: string) {
  const [workspace, mark] = [`${folder}/workspace`, `${folder}/ran`];
  const make = `
import pathlib, sys, sysconfig, venv
folder = pathlib.Path(sys.argv[1])
venv.create(folder / "venv", with_pip=False, symlinks=True)
site, = (folder / "venv").glob("lib/python*/site-packages")
(site / "__editable__.project.pth").write_text(f"{folder}/workspace\\nimport optional\\n")
(site / "tests.pth").write_text(sysconfig.get_path("purelib"))
`;
  await Deno.mkdir(`${workspace}/.ipybox`, { recursive: true });
  const { success, stderr } = await new Deno.Command(testPython(), {
    args: ["-c", make, folder],
  }).output();
  assert(success, new TextDecoder().decode(stderr));
  for (const name of ["sitecustomize", "optional", "pydantic", "uvloop"]) {
    const text = `open(${JSON.stringify(mark)}, "a").write("${name} ")\n`;
    await Deno.writeTextFile(`${workspace}/${name}.py`, text);
  }
  return { workspace, mark, python: `${folder}/venv/bin/python` };
}

/** Which planted modules ran. */
async function ranAt(mark: string): Promise<string> {
  return await Deno.readTextFile(mark).catch(() => "");
}

Deno.test("no Python of the user's imports outside of the sandbox what code has written", async () => {
  await using folder = await TempFolder.create();
  const { workspace, mark, python } = await makePlaces(folder.path);
  const { signal } = new AbortController();
  const { executable } = await locatePython(python, { workspace, signal });
  assertEquals(executable, await Deno.realPath(`${folder.path}/venv/bin`) + "/python");
  const modules = { ipykernel: "ipykernel", pydantic: "pydantic", optional: "optional" };
  const found = await inspectInterpreter(python, modules);
  assertEquals(found.prefix, await Deno.realPath(`${folder.path}/venv`));
  assertEquals(Object.keys(found.packages), ["ipykernel", "pydantic"]);
  assertEquals(found.importsWorkspace, true);
  const uv = namedProgram(testPython().replace(/python$/, "uv"));
  const settings = await readIndexSettings(found, { uv, signal });
  assert(settings.indexes.length > 0);
  assertEquals(await ranAt(mark), "");
  assertEquals((await inspectInterpreter(testPython())).importsWorkspace, false);
});

Deno.test("nor where a .pth file or a link of the environment leads to what code has written", async () => {
  await using folder = await TempFolder.create();
  const { workspace, mark, python } = await makePlaces(folder.path);
  const [site = ""] = await Array.fromAsync(
    Deno.readDir(`${folder.path}/venv/lib`),
    ({ name }) => `${folder.path}/venv/lib/${name}/site-packages`,
  );
  const run = `open(${JSON.stringify(mark)}, "a").write("ran ")`;
  await Deno.mkdir(`${workspace}/lib`);
  await Deno.writeTextFile(`${workspace}/lib/evil.pth`, `import os; ${run}\n`);
  await Deno.writeTextFile(`${workspace}/lib/late.py`, run);
  await Deno.mkdir(`${workspace}/linked`);
  await Deno.writeTextFile(`${workspace}/linked/__init__.py`, run);
  await Deno.symlink(`${workspace}/linked`, `${site}/linked`);
  const lines = [
    `import site; site.addsitedir(${JSON.stringify(`${workspace}/lib`)})`,
    `import sys; sys.path.insert(0, ${JSON.stringify(`${workspace}/lib`)}); import late`,
  ];
  for (const [index, line] of lines.entries()) {
    await Deno.writeTextFile(`${site}/leads${index}.pth`, `${line}\n`);
  }
  const found = await inspectInterpreter(python, { linked: "linked", ipykernel: "ipykernel" });
  assertEquals(await ranAt(mark), "");
  assertEquals(Object.keys(found.packages), ["ipykernel"]);
  assertStringIncludes(found.missing.linked ?? "", "in a workspace, whose code could change it");
});

Deno.test("nor does the Python of a placement", async () => {
  await using folder = await TempFolder.create();
  const { workspace, mark, python } = await makePlaces(folder.path);
  const placement = {
    ...{ type: "command", command: ["/usr/bin/env"], bubblewrap: true, workspace } as const,
  };
  const error = await rejection(TestExecutor.start({ placement, python }));
  // What the environment names is not part of it, so the gateway cannot be imported inside.
  assertStringIncludes(`${error}`, "The kernel gateway exited");
  assertEquals(await ranAt(mark), "");
});

Deno.test("code in a folder of an environment sees only the environment's parts there", async () => {
  await using folder = await TempFolder.create();
  const { python } = await makePlaces(folder.path);
  const environment = await Deno.realPath(`${folder.path}/venv`);
  const workspace = `${environment}/project`;
  await Deno.mkdir(workspace);
  const { signal } = new AbortController();
  const { readable } = await locatePython(python, { workspace, signal });
  assertEquals(readable.includes(environment), false);
  assertEquals(
    readable.filter((path) => path.startsWith(`${environment}/`)).toSorted(),
    ["bin", "lib", "lib64", "pyvenv.cfg"].map((name) => `${environment}/${name}`),
  );
});
