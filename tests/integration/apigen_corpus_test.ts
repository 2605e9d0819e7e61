// deno-lint-ignore-file no-console -- what was counted is worth reading
import { assert, assertEquals } from "@std/assert";
import { type GeneratedTool, generatePackage } from "../../src/apigen/generate.ts";
import { CORPUS, corpusServers, NO_CORPUS, packageName } from "../support/corpus.ts";
import { runPyright, runPython, runScript } from "../support/run_python.ts";
import { testIf } from "../support/skip.ts";
import { TempFolder } from "../support/temp_folder.ts";

/** Generates the packages of all servers. */
async function generateCorpus(rootDir: string): Promise<GeneratedTool[]> {
  const tools: GeneratedTool[] = [];
  for (const listing of corpusServers()) {
    tools.push(...await generatePackage(packageName(listing.server), listing, { rootDir }));
  }
  return tools;
}

async function filesBelow(folder: string): Promise<string[]> {
  const files: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    if (isDirectory) files.push(...await filesBelow(`${folder}/${name}`));
    else files.push(`${folder}/${name}`);
  }
  return files.sort();
}

/** What a type checker found in generated modules; the runtime's own are checked elsewhere. */
function errorsIn(output: string): string[] {
  return output.split("\n")
    .filter((line) => /\berror\b/.test(line) && !line.includes("ipybox_runtime/"))
    .filter((line) => !/^(?:Found )?\d+ errors?\b/.test(line));
}

testIf(CORPUS !== undefined, NO_CORPUS, {
  name: "every tool of real servers becomes a module that is right in every labelled example",
  fn: async () => {
    await using directory = await TempFolder.create();

    const tools = await generateCorpus(directory.path);

    assertEquals(
      tools.filter(({ module, warnings }) => module === null || warnings.length > 0),
      [],
    );
    const judged = await runScript<{ tools: number; found: unknown[] }>("judge_examples.py", [
      directory.path,
      `${CORPUS}/mcp-tools-examples`,
      `${CORPUS}/mcp-tools`,
    ]);
    console.info(`corpus: ${JSON.stringify(judged)}`);
    assertEquals(judged.found, []);
    assertEquals(judged.tools, tools.length);
  },
});

testIf(CORPUS !== undefined, NO_CORPUS, {
  name:
    "modules of real tools hold only what generated code may hold, and satisfy ruff, mypy and pyright",
  fn: async () => {
    await using directory = await TempFolder.create();
    await generateCorpus(directory.path);
    const packages = corpusServers().map(({ server }) => packageName(server));

    const inspected = await runScript<{ problems: unknown[] }>("inspect_package.py", [
      directory.path,
      ...packages,
    ]);
    assertEquals(inspected.problems, []);

    const ruff = await runPython(["-m", "ruff", "check", "--no-cache", ...packages], {
      cwd: directory.path,
    });
    assert(ruff.success, ruff.stdout);

    const strict = [
      "-m",
      "mypy",
      "--strict",
      "--cache-dir=/dev/null",
      "--python-version=3.11",
    ];
    const mypy = await runPython([...strict, ...packages], { cwd: directory.path });
    assertEquals(errorsIn(mypy.stdout), []);

    const config = { typeCheckingMode: "strict", pythonVersion: "3.11" };
    await Deno.writeTextFile(`${directory.path}/pyrightconfig.json`, JSON.stringify(config));
    const pyright = await runPyright(directory.path, packages);
    assertEquals(errorsIn(pyright.stdout), []);
  },
});

testIf(CORPUS !== undefined, NO_CORPUS, {
  name: "the same tool lists give the same bytes, and writing them again writes nothing",
  fn: async () => {
    await using first = await TempFolder.create();
    await using second = await TempFolder.create();

    await generateCorpus(first.path);
    await generateCorpus(second.path);

    const files = await filesBelow(first.path);
    assertEquals(
      (await filesBelow(second.path)).map((file) => file.slice(second.path.length)),
      files.map((file) => file.slice(first.path.length)),
    );
    for (const file of files) {
      const other = second.path + file.slice(first.path.length);
      assertEquals(await Deno.readTextFile(other), await Deno.readTextFile(file), file);
    }
    const changed = async () =>
      await Promise.all(files.map(async (file) => [(await Deno.stat(file)).ino, file]));
    const before = await changed();
    await generateCorpus(first.path);
    assertEquals(await changed(), before);
  },
});
