import {
  assert,
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { CodeExecutionError } from "../../src/base/errors.ts";
import { CodeExecutor } from "../../src/executor/code_executor.ts";
import { silentLogger } from "../../src/base/log.ts";
import { inThisProcess } from "../support/command_io.ts";
import { testPython } from "../support/python.ts";
import { stepsOf } from "../support/steps.ts";
import { TempFolder } from "../support/temp_folder.ts";

const VERSION = "from importlib.metadata import version as v; print(v('iniconfig'))";

Deno.test("ipybox install installs packages for the code of one workspace", async (t) => {
  await using workspace = await TempFolder.create();
  await using other = await TempFolder.create();
  const inWorkspace = ["--workspace", workspace.path];
  const options = { workspace: workspace.path, python: testPython(), log: silentLogger };
  const step = stepsOf(t);
  await using session = await CodeExecutor.start(options); // begun before anything is installed

  await step("which is without them before", async () => {
    await assertRejects(() => session.execute(VERSION), CodeExecutionError, "PackageNotFoundError");
    const list = await inThisProcess(["packages", ...inWorkspace]);
    assertEquals({ code: list.code, stdout: list.stdout }, { code: 0, stdout: "" });
  });

  await step("resolved together, also such of which the kernel has a version", async () => {
    const file = `${workspace.path}/requirements.txt`;
    await Deno.writeTextFile(file, "iniconfig==2.0.0  # pinned\n");
    const { code, stdout, stderr } = await inThisProcess(
      ["install", "-r", file, "python-dateutil", "pluggy", ...inWorkspace],
    );
    assertEquals({ code, stdout }, { code: 0, stdout: "" }, stderr);
    assertMatch(
      stderr,
      /^Installed iniconfig 2\.0\.0, pluggy \S+; python-dateutil \S+ is already there \(\d+\.\d s\)\n$/,
    );
  });

  await step("where `run` finds them", async () => {
    const { code, stdout, stderr } = await inThisProcess(
      ["run", "--no-sandbox", "-c", VERSION, ...inWorkspace],
    );
    assertEquals({ code, stdout }, { code: 0, stdout: "2.0.0\n" }, stderr);
  });

  await step("and a session that ran before", async () => {
    assertEquals((await session.execute(VERSION)).text, "2.0.0");
  });

  await step("and no other workspace does", async () => {
    const run = ["run", "--no-sandbox", "-c", VERSION, "--workspace", other.path];
    assertEquals((await inThisProcess(run)).code, 1);
  });

  await step("nor an executor that is to have none", async () => {
    const without = { ...options, packages: false, sandbox: false } as const;
    await using executor = await CodeExecutor.start(without);
    const found = "import importlib.util; print(importlib.util.find_spec('pluggy'))";
    assert(!(await executor.execute(found)).text?.includes(workspace.path));
    const isThere = "from importlib.metadata import distributions as d\n" +
      "print('iniconfig' in {each.name for each in d()})";
    assertEquals((await executor.execute(isThere)).text, "False");
  });

  await step("and downloads nothing that is there", async () => {
    const { code, stderr } = await inThisProcess(["install", "iniconfig", ...inWorkspace]);
    assertEquals(code, 0, stderr);
    assertMatch(stderr, /^iniconfig 2\.0\.0 is already there \(\d+\.\d s\)\n$/);
  });

  await step("and replaces what does not fit, as installPackages() does", async () => {
    const lines: string[] = [];
    const onLine = (line: string) => void lines.push(line);
    const installed = await session.installPackages("iniconfig==2.1.0", { onLine });
    assertEquals(installed, "Installed iniconfig 2.1.0");
    assertEquals((await session.execute(VERSION)).text, "2.1.0");
    assert(lines.includes(" + iniconfig==2.1.0"), lines.join("\n"));
  });

  await step("and says which it could not install", async () => {
    const { code, stderr } = await inThisProcess(["install", "iniconfig==0.0.0", ...inWorkspace]);
    assertEquals(code, 1);
    assertStringIncludes(stderr, "\nipybox: iniconfig==0.0.0 was not installed\n");
  });

  await step("and lists and removes them", async () => {
    const listed = await inThisProcess(["packages", "--json", ...inWorkspace]);
    const { packages }: { packages: { name: string; version: string; requested: boolean }[] } = JSON
      .parse(
        listed.stdout,
      );
    assertEquals(packages.find(({ name }) => name === "iniconfig"), {
      name: "iniconfig",
      version: "2.1.0",
      requested: true,
    });
    const removed = await inThisProcess(["packages", "remove", "INIconfig", ...inWorkspace]);
    assertEquals([removed.code, removed.stderr], [0, "Removed iniconfig 2.1.0\n"]);
    const { stdout } = await inThisProcess(["packages", ...inWorkspace]);
    assert(!stdout.includes("iniconfig"), stdout);
    assertStringIncludes(stdout, "pluggy");
    const unknown = await inThisProcess(["packages", "remove", "iniconfig", ...inWorkspace]);
    assertEquals(unknown.code, 2);
    assertStringIncludes(unknown.stderr, 'No package "iniconfig"');
  });
});

Deno.test("ipybox install takes no paths", async () => {
  const { code, stderr } = await inThisProcess(["install", "./package"]);
  assertEquals(code, 2);
  assertStringIncludes(stderr, 'Cannot install "./package"');
});
