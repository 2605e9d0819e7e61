import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { inOwnProcess } from "../../tests/support/own_process.ts";
import { TempFolder } from "../../tests/support/temp_folder.ts";
import { EnvironmentNotReadyError } from "../base/errors.ts";
import { checkPython, findPython } from "./environment.ts";
import { isNewEnough } from "./interpreter.ts";
import { environmentKey, kernelRecipe } from "./managed.ts";

Deno.test("findPython() before the first setup names the command that helps", async () => {
  await using directory = await TempFolder.create();

  assertEquals(await findManaged(directory.path), "ipybox setup");
});

Deno.test("findPython() names all that a Python lacks, and the command that installs it", async () => {
  await using directory = await TempFolder.create();
  const python = await bareEnvironment(directory.path);

  const finding = findPython({ python, cacheDir: directory.path });

  const error = await assertRejects(() => finding, EnvironmentNotReadyError);
  for (const name of ["jupyter_kernel_gateway", "ipykernel", "pydantic"]) {
    assertStringIncludes(error.message, `${name}: ModuleNotFoundError`);
  }
  // It has no pip, like environments of uv; nor may pip change a system's.
  const all = "jupyter_kernel_gateway ipykernel pydantic";
  const own = `${python} -m venv ENV && ENV/bin/python -m pip install ${all}`;
  assertEquals(error.fix.split("\n")[0], `${own}, then --python ENV/bin/python`);
});

Deno.test("findPython() really imports: broken and old packages count as missing", async () => {
  await using directory = await TempFolder.create();
  const python = await bareEnvironment(directory.path);
  await addPackage(directory.path, "kernel_gateway", "jupyter_kernel_gateway", "3.0.1");
  await addPackage(directory.path, "pydantic", "pydantic", "1.10.13");
  await addPackage(directory.path, "ipykernel", "ipykernel", "7.4.0", "print('hi'); 1 / 0");

  const finding = findPython({ python, cacheDir: directory.path });

  const error = await assertRejects(() => finding, EnvironmentNotReadyError);
  assertStringIncludes(error.message, "ipykernel: ZeroDivisionError");
  assertStringIncludes(error.message, "pydantic: version 1.10.13 is older than 2.11");
  assertEquals(error.message.includes("jupyter_kernel_gateway"), false);
});

Deno.test("findPython() refuses a pydantic that generated APIs do not work with", async () => {
  await using directory = await TempFolder.create();
  const python = await bareEnvironment(directory.path);
  await addPackage(directory.path, "kernel_gateway", "jupyter_kernel_gateway", "3.0.1");
  await addPackage(directory.path, "ipykernel", "ipykernel", "7.4.0");
  await addPackage(directory.path, "pydantic", "pydantic", "2.9.2");
  await addPackage(directory.path, "pip", "pip", "26.0");
  const finding = findPython({ python, cacheDir: directory.path });
  const error = await assertRejects(() => finding, EnvironmentNotReadyError);
  assertStringIncludes(error.message, "pydantic: version 2.9.2 is older than 2.11");
  assertEquals(error.fix.split("\n")[0], `${python} -m pip install -U pydantic`);
});

Deno.test("findPython() takes any Python that has what is needed", async () => {
  await using directory = await TempFolder.create();
  const python = await fitEnvironment(directory.path);

  const environment = await findPython({ python, cacheDir: directory.path });

  assertEquals(environment.executable, python);
  assertEquals(environment.managed, false);
  assertEquals(environment.packages, {
    jupyter_kernel_gateway: "3.0.1",
    ipykernel: "7.4.0",
    pydantic: "2.11.1",
  });
  const check = await checkPython({ python, cacheDir: directory.path });
  assertEquals({ missing: check.missing, problem: check.problem }, {
    missing: {},
    problem: undefined,
  });
});

Deno.test("findPython() tries a Python once, and again when its packages have changed", async () => {
  await using directory = await TempFolder.create();
  const { path: cacheDir } = directory;
  const python = await fitEnvironment(directory.path);
  const site = await sitePackages(directory.path);
  const note = `open(${JSON.stringify(`${cacheDir}/tries`)}, "a").write("tried ")`;
  await Deno.writeTextFile(`${site}/ipykernel.py`, note);
  const tries = async () => (await Deno.readTextFile(`${cacheDir}/tries`)).trim().split(" ").length;

  const first = await findPython({ python, cacheDir });

  assertEquals(await findPython({ python, cacheDir }), first);
  assertEquals(await tries(), 1);
  await Deno.remove(`${site}/pydantic-2.11.1.dist-info`, { recursive: true });
  await addPackage(directory.path, "pydantic", "pydantic", "2.9.2");
  const old = () => findPython({ python, cacheDir });
  await assertRejects(old, EnvironmentNotReadyError, "version 2.9.2 is older than 2.11");
  await assertRejects(old, EnvironmentNotReadyError, "version 2.9.2 is older than 2.11");
  assertEquals(await tries(), 3);
});

Deno.test("findPython() tries a Python again if what it remembers is not whole", async () => {
  await using directory = await TempFolder.create();
  const { path: cacheDir } = directory;
  const python = await fitEnvironment(directory.path);
  const found = await findPython({ python, cacheDir });
  const [entry] = await Array.fromAsync(Deno.readDir(`${cacheDir}/named`));
  const record = `${cacheDir}/named/${entry?.name}`;
  const whole: unknown = JSON.parse(await Deno.readTextFile(record));
  const others = [
    "{",
    "{}",
    ...[{ changed: {} }, { executable: "/bin/sh" }, { version: "3.9.1" }]
      .map((part) => JSON.stringify(Object.assign({}, whole, part))),
  ];

  for (const text of others.slice(0, 4)) {
    await Deno.writeTextFile(record, text);
    assertEquals(await findPython({ python, cacheDir }), found);
  }
  await Deno.writeTextFile(record, others.at(-1) ?? "");
  await assertRejects(() => findPython({ python, cacheDir }), EnvironmentNotReadyError, "too old");
});

Deno.test("checkPython() tries even a Python that is remembered", async () => {
  await using directory = await TempFolder.create();
  const { path: cacheDir } = directory;
  const python = await fitEnvironment(directory.path);
  await findPython({ python, cacheDir });
  // As its folder does not change, only trying it shows this.
  await Deno.writeTextFile(`${await sitePackages(directory.path)}/ipykernel.py`, "1 / 0");
  await findPython({ python, cacheDir });

  const { missing } = await checkPython({ python, cacheDir });

  assertStringIncludes(missing.ipykernel ?? "", "ZeroDivisionError");
  const finding = () => findPython({ python, cacheDir });
  await assertRejects(finding, EnvironmentNotReadyError, "ipykernel: ZeroDivisionError");
});

Deno.test("findPython() says why something is no Python", async () => {
  const find = (python: string) => () => findPython({ python });
  await assertRejects(find("/nowhere/python"), EnvironmentNotReadyError, "no such command");
  await assertRejects(find("/usr"), EnvironmentNotReadyError, "did you mean /usr/bin/python?");
  await assertRejects(find("/bin/false"), EnvironmentNotReadyError, "it exited with code 1");
  await assertRejects(find("/bin/echo"), EnvironmentNotReadyError, "it exited with code 0");
});

Deno.test("findPython() trusts the marker of a managed environment, and only that", async () => {
  await using directory = await TempFolder.create();
  const key = environmentKey(kernelRecipe());
  const prefix = `${directory.path}/${key}-py3.12-0a1b2c3d`;
  const executable = `${prefix}/bin/python`;
  const packages = { jupyter_kernel_gateway: "3", ipykernel: "7", pydantic: "2" };
  const marker = `${directory.path}/${key}.json`;
  const write = (text: string) => Deno.writeTextFile(marker, text);
  const find = () => findManaged(directory.path);

  await write(JSON.stringify({
    ...{ executable, prefix, basePrefix: "/usr", version: "3.12.1" },
    ...{ makesEnvironments: true, packages, missing: {} },
  }));
  assertEquals(await find(), "ipybox setup"); // its interpreter is gone
  await Deno.mkdir(`${prefix}/bin`, { recursive: true });
  await Deno.writeTextFile(executable, "it must not be started"); // and is not executable either
  assertEquals(await find(), executable);
  assertEquals((await findPython({ python: executable })).managed, true);
  await write(`{"executable": `);
  assertEquals(await find(), "ipybox setup");
});

Deno.test("findBaseInterpreter() says which Pythons before the one that it finds do not work", async () => {
  await using directory = await TempFolder.create();
  const broken = `${directory.path}/python3`;
  await Deno.writeTextFile(broken, "#!/bin/sh\necho 'no such version' >&2; exit 127\n", {
    mode: 0o755,
  });
  const said = await inOwnProcess(
    `const { findBaseInterpreter } = await load("src/python/interpreter.ts");
    const said = [];
    const found = await findBaseInterpreter(false, (line) => said.push(line));
    return [found !== undefined, ...said];`,
    { PATH: `${directory.path}:${Deno.env.get("PATH")}` },
  );
  assertEquals(said, [true, `Cannot use "${broken}" as Python: no such version`]);
});

Deno.test("isNewEnough() compares versions by their numbers", () => {
  assertEquals(["3.9.18", "3.10.0", "3.13.0", "2.7.18", "4.0"].map(isNewEnough), [
    false,
    true,
    true,
    false,
    true,
  ]);
});

/** The Python that is found in a cache if none is named, or else the fix. */
async function findManaged(cacheDir: string): Promise<unknown> {
  return await inOwnProcess(
    `const { findPython } = await load("src/python/environment.ts");
    return await findPython({ cacheDir: "${cacheDir}" })
      .then(({ executable }) => executable, ({ fix }) => fix);`,
    { IPYBOX_PYTHON: "" },
  );
}

/** An environment without any package; its interpreter's path. */
async function bareEnvironment(directory: string): Promise<string> {
  const args = ["-I", "-m", "venv", "--without-pip", `${directory}/bare`];
  const { success } = await new Deno.Command("python3", { args }).output();
  assertEquals(success, true);
  return `${directory}/bare/bin/python`;
}

/** An environment with the least that kernels need; its interpreter's path. */
async function fitEnvironment(directory: string): Promise<string> {
  const python = await bareEnvironment(directory);
  await addPackage(directory, "kernel_gateway", "jupyter_kernel_gateway", "3.0.1");
  await addPackage(directory, "pydantic", "pydantic", "2.11.1");
  await addPackage(directory, "ipykernel", "ipykernel", "7.4.0");
  await Deno.mkdir(`${await sitePackages(directory)}/__pycache__`); // as installers do
  return python;
}

async function sitePackages(directory: string): Promise<string> {
  const lib = `${directory}/bare/lib`;
  const [python] = await Array.fromAsync(Deno.readDir(lib));
  return `${lib}/${python?.name}/site-packages`;
}

async function addPackage(
  directory: string,
  module: string,
  name: string,
  version: string,
  code = "",
): Promise<void> {
  const site = await sitePackages(directory);
  const info = `${site}/${name}-${version}.dist-info`;
  await Deno.mkdir(info);
  await Deno.writeTextFile(`${info}/METADATA`, `Name: ${name}\nVersion: ${version}\n`);
  await Deno.writeTextFile(`${site}/${module}.py`, code);
}
