import { assertEquals, assertMatch } from "@std/assert";
import { EnvironmentNotReadyError } from "../base/errors.ts";
import { testPython } from "../../tests/support/python.ts";
import { runPython } from "../../tests/support/run_python.ts";
import { TempFolder } from "../../tests/support/temp_folder.ts";
import { rejection } from "../../tests/support/wait.ts";
import { locatePython } from "./python_files.ts";

Deno.test("A Python of conda gets what conda's activation sets", async () => {
  await using folder = await TempFolder.create();
  const prefix = `${folder.path}/geo`;
  await runPython(["-m", "venv", "--without-pip", prefix]);
  const packages = JSON.parse(
    (await runPython(["-c", "import json, sys; print(json.dumps(sys.path[-1]))"])).stdout,
  );
  const { stdout: version } = await runPython([
    "-c",
    "import sys; print('python%d.%d' % sys.version_info[:2], end='')",
  ]);
  await Deno.writeTextFile(`${prefix}/lib/${version}/site-packages/more.pth`, `${packages}\n`);
  await Deno.mkdir(`${prefix}/conda-meta`);
  await Deno.writeTextFile(`${prefix}/conda-meta/state`, '{"env_vars": {"STATE": "kept"}}');
  await Deno.mkdir(`${prefix}/etc/conda/activate.d`, { recursive: true });
  await Deno.writeTextFile(
    `${prefix}/etc/conda/activate.d/proj.sh`,
    'echo noise; export PROJ_DATA="$CONDA_PREFIX/share/proj" MISSING="$HOME"\n',
  );

  const { variables } = await located(`${prefix}/bin/python`);

  assertEquals(variables, {
    CONDA_DEFAULT_ENV: "geo",
    CONDA_PREFIX: prefix,
    MISSING: "",
    PROJ_DATA: `${prefix}/share/proj`,
    STATE: "kept",
  });
});

Deno.test("A Python that needs a library path gets it, from its script or the user", async () => {
  await using folder = await TempFolder.create();
  const library = `${folder.path}/lib`;
  await Deno.mkdir(library);
  const script = async (name: string, line: string) => {
    const text = `#!/bin/sh\n${line}\nexec ${testPython()} "$@"\n`;
    await Deno.writeTextFile(`${folder.path}/${name}`, text, { mode: 0o755 });
    return `${folder.path}/${name}`;
  };
  const own = await script("own", `export LD_LIBRARY_PATH=${library}`);
  const needy = await script(
    "needy",
    '[ -n "$LD_LIBRARY_PATH" ] || { echo lacks it >&2; exit 3; }',
  );

  for (const [python, libraryPath] of [[own, undefined], [needy, library]] as const) {
    const { variables, readable } = await located(python, libraryPath);
    assertEquals(variables, { LD_LIBRARY_PATH: library });
    assertEquals(readable.includes(library), true);
  }
  const error = await rejection(located(needy));
  assertEquals(error instanceof EnvironmentNotReadyError, true);
  assertMatch(String(error), /lacks it/);
  assertEquals((await located(testPython(), library)).variables, {}); // it needs none
});

function located(python: string, libraryPath?: string) {
  const signal = AbortSignal.timeout(60_000);
  return locatePython(python, { workspace: "/nonexistent", libraryPath, signal });
}
