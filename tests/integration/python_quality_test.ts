/** What linters and type checkers say of the Python that is ours. */
import { assert, assertEquals } from "@std/assert";
import { runPyright, runPython } from "../support/run_python.ts";
import { testIf } from "../support/skip.ts";
import { TempFolder } from "../support/temp_folder.ts";

const root = new URL("../../", import.meta.url).pathname;
const { success: hasRuff } = await runPython(["-m", "ruff", "--version"]);

testIf(hasRuff, "the Python of IPYBOX_PYTHON has no ruff; `deno task test` sets up one that has", {
  name: "ruff has nothing to say of the Python in templates/",
  fn: async () => {
    for (const command of [["check", "--no-cache"], ["format", "--check", "--no-cache"]]) {
      const { success, stdout } = await runPython(["-m", "ruff", ...command, "templates"], {
        cwd: root,
      });
      assert(success, stdout);
    }
  },
});

Deno.test("pyright, when it is strict, finds no error in the runtime", async () => {
  await using directory = await TempFolder.create();
  const target = `${directory.path}/ipybox_runtime`;
  const source = `${root}templates/runtime/ipybox_runtime`;
  for (const folder of ["", "/kernel"]) {
    await Deno.mkdir(target + folder);
    for await (const { name, isFile } of Deno.readDir(source + folder)) {
      if (isFile) await Deno.copyFile(`${source}${folder}/${name}`, `${target}${folder}/${name}`);
    }
  }
  const config = { typeCheckingMode: "strict", pythonVersion: "3.11", reportPrivateUsage: false };
  await Deno.writeTextFile(`${directory.path}/pyrightconfig.json`, JSON.stringify(config));

  const { stdout } = await runPyright(directory.path, ["ipybox_runtime"]);

  const lines = stdout.split("\n").filter((line) => !line.startsWith("  /") && line !== "");
  assertEquals(lines.at(-1), "0 errors, 0 warnings, 0 informations", stdout);
});
