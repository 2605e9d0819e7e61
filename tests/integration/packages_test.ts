/** Packages for code, beside those that kernels need. They come from wheels of the tests, so no network is needed. */
import {
  assert,
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { dirname } from "node:path";
import { EnvironmentNotReadyError } from "../../src/base/errors.ts";
import { hostPath } from "../../src/process/program.ts";
import { inspectInterpreter } from "../../src/python/interpreter.ts";
import { PackageFolder } from "../../src/python/packages.ts";
import { parseRequirement } from "../../src/python/requirement.ts";
import { type CliEnd, ipybox } from "../support/cli.ts";
import { inOwnProcess } from "../support/own_process.ts";
import { testPython } from "../support/python.ts";
import { runPython } from "../support/run_python.ts";
import { testIf } from "../support/skip.ts";
import { stepsOf } from "../support/steps.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { makeWheels } from "../support/wheels.ts";

/** A workspace whose packages come from the tests' own wheels. */
class Workspace implements AsyncDisposable {
  readonly #folder: TempFolder;
  readonly #path: string;

  private constructor(folder: TempFolder) {
    this.#folder = folder;
    this.#path = `${folder.path}/workspace`;
  }

  static async create(wheels: Parameters<typeof makeWheels>[1]): Promise<Workspace> {
    const folder = await TempFolder.create();
    await Deno.mkdir(`${folder.path}/workspace`);
    await Deno.mkdir(`${folder.path}/wheels`);
    await makeWheels(`${folder.path}/wheels`, wheels);
    return new Workspace(folder);
  }

  async ipybox(args: readonly string[], env: Record<string, string> = {}): Promise<CliEnd> {
    return await ipybox([...args, "--workspace", this.#path], {
      env: { PIP_NO_INDEX: "1", PIP_FIND_LINKS: `${this.#folder.path}/wheels`, ...env },
    });
  }

  /** Installs packages. The kernel's Python makes the installer's sandbox, whatever `python3` is on the PATH. */
  async install(...what: string[]): Promise<string> {
    const programs = `${this.#folder.path}/programs`;
    await Deno.mkdir(programs, { recursive: true });
    await Deno.writeTextFile(`${programs}/python3`, "#!/bin/sh\nexit 1\n", { mode: 0o755 });
    const PATH = `${programs}:${hostPath()}`;
    const { code, stderr } = await this.ipybox(["install", ...what], { PATH });
    assertEquals(code, 0, stderr);
    return stderr;
  }

  async run(code: string): Promise<string> {
    const end = await this.ipybox(["run", "-c", code]);
    assertEquals(end.code, 0, end.stderr);
    return end.stdout.trimEnd();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await PackageFolder.remove(this.#path);
    await this.#folder[Symbol.asyncDispose]();
  }
}

Deno.test("packages are installed one after the other, and code has them", async (t) => {
  const step = stepsOf(t);
  // Where it may not write, as in a kernel, it says nothing.
  const mark =
    "try: open(__import__('sysconfig').get_path('purelib') + '/ran', 'w')\nexcept OSError: pass\n";
  await using workspace = await Workspace.create([
    {
      name: "first",
      files: {
        "first.pth":
          "import sys; open(next(p for p in sys.path if 'packages/' in p) + '/ran', 'w')\n",
        "sitecustomize.py": mark,
      },
    },
    { name: "cloud", requires: ["python-dateutil<3"] },
    { name: "python-dateutil", version: "2.9.9", files: { "dateutil/__init__.py": "OWN = 1" } },
    {
      name: "cow",
      requires: ["grass"],
      files: { "cow.py": "def main(): print('moo')\n" },
      programs: { cow: "cow:main", ls: "cow:main" },
    },
    { name: "grass" },
  ]);
  const listed = async () => {
    const { stdout } = await workspace.ipybox(["packages", "--json"]);
    const { path, packages }: {
      path: string;
      packages: { name: string; requested: boolean }[];
    } = JSON.parse(stdout);
    return { path, requested: packages.filter((one) => one.requested).map(({ name }) => name) };
  };
  await workspace.install("first");

  await step("in an older version than the kernels' own, where another one needs it", async () => {
    assertMatch(
      await workspace.install("cloud", "cow"),
      /^Installed cloud 1\.0, cow 1\.0 and 2 packages that they need; running kernels keep python-dateutil \S+ until they are reset \(.+ s\)\n$/,
    );
  });

  await step("and the installer ran nothing of what was installed before", async () => {
    const { path, requested } = await listed();
    const names = await Array.fromAsync(Deno.readDir(path), ({ name }) => name);
    for (const name of ["first", "cow", "grass"]) assert(names.includes(`${name}-1.0.dist-info`));
    assert(!names.includes("ran"));
    assertEquals(requested, ["cloud", "cow", "first"]);
  });

  await step("what is there needs no index, and is requested from then on", async () => {
    const unreachable = { PIP_NO_INDEX: "0", PIP_INDEX_URL: "http://127.0.0.1:9/simple" };
    const { code, stderr } = await workspace.ipybox(["install", "cow", "grass"], unreachable);
    assertEquals(code, 0, stderr);
    assertMatch(stderr, /^cow 1\.0, grass 1\.0 are already there \(.+ s\)\n$/);
    assertEquals((await listed()).requested, ["cloud", "cow", "first", "grass"]);
  });

  await step("code finds their programs after all others, and cannot change them", async () => {
    const printed = await workspace.run(`
import dateutil, os, shutil
!cow
!ls /usr | grep -x bin
cow = shutil.which("cow")
print(os.environ["PATH"].split(":")[-1] == os.path.dirname(cow))
try: open(cow, "a")
except OSError as error: print(error.strerror)
print(dateutil.OWN)
print(open(cow).readline())`);
    const [moo, bin, isLast, change, own, start] = printed.split(/\r?\n/);
    assertEquals([moo, bin, isLast, change], ["moo", "bin", "True", "Read-only file system"]);
    assertEquals(own, "1"); // of the older version
    // After an upgrade, the kernels' Python is in another folder.
    assertEquals(start, "#!/usr/bin/env python");
  });
});

Deno.test("a conflict with the kernel is one sentence, and one with the gateway is none", async (t) => {
  const step = stepsOf(t);
  await using workspace = await Workspace.create([
    { name: "models", requires: ["pydantic<2,>1"] },
    { name: "pydantic", version: "1.99" },
    { name: "cloud", version: "1.0" },
    { name: "cloud", version: "2.0", requires: ["requests>=1000"] },
    { name: "requests", version: "1000.0" },
  ]);

  await step("nothing is installed that does not go with the kernel", async () => {
    const indirect = await workspace.ipybox(["install", "models"]);
    assertEquals(indirect.code, 1);
    assertMatch(
      indirect.stderr,
      /^ {2}\| models needs pydantic>1,<2, but the kernel needs pydantic>=2\.11 and has 2\.\S+: ask for another version of models\nipybox: models was not installed\n$/,
    );
    const direct = await workspace.ipybox(["install", "pydantic<2"]);
    assertMatch(
      direct.stderr,
      /^ {2}\| pydantic 1\.99 does not go with the kernel, which needs pydantic>=2\.11 and has 2\.\S+\n/,
    );
    assertEquals((await workspace.ipybox(["packages"])).stdout, "");
  });

  await step("nothing becomes older for the gateway's sake", async () => {
    assertStringIncludes(await workspace.install("cloud", "-v"), "  |  + cloud==2.0\n");
  });
});

Deno.test("of a Python of the user's, all packages are there", async () => {
  await using folder = await TempFolder.create();
  const python = await emptyEnvironment(folder.path);
  const uv = `${dirname(python)}/uv`;
  await Deno.copyFile(testPython().replace(/python$/, "uv"), uv);
  const { version } = await inspectInterpreter(python);
  const site = `lib/python${version.split(".").slice(0, 2).join(".")}/site-packages`;
  const info = `${folder.path}/venv/${site}/grass-1.0.dist-info`;
  await Deno.mkdir(info);
  await Deno.writeTextFile(
    `${info}/METADATA`,
    "Metadata-Version: 2.1\nName: grass\nVersion: 1.0\n",
  );
  const wheels = `${folder.path}/wheels`;
  await Deno.mkdir(wheels);
  await makeWheels(wheels, [
    { name: "cow", requires: ["grass"] },
    { name: "grass", version: "2.0" },
  ]);
  const packages = await open(folder.path, python);
  const config = `${folder.path}/uv.toml`;
  await Deno.writeTextFile(config, `no-index = true\nfind-links = ["${wheels}"]\n`);
  await inOwnProcess(
    `const { inspectInterpreter } = await load("src/python/interpreter.ts");
    const { PackageFolder } = await load("src/python/packages.ts");
    const { parseRequirement } = await load("src/python/requirement.ts");
    const python = { ...await inspectInterpreter("${python}"), managed: false };
    const options = { cacheDir: "${folder.path}/cache" };
    const packages = await PackageFolder.open("${folder.path}/work", python, options);
    await packages.install([parseRequirement("cow")]);`,
    { UV_CONFIG_FILE: config },
  );
  assertEquals((await packages.list()).map(({ name }) => name), ["cow"]);
});

const hasUv = hostPath().split(":").some((folder) => isFile(`${folder}/uv`));

testIf(!hasUv, "uv is on the PATH", {
  name: "PackageFolder says how packages can be installed where there is no uv",
  fn: async () => {
    await using folder = await TempFolder.create();
    const packages = await open(folder.path, await emptyEnvironment(folder.path));
    const error = await assertRejects(
      () => packages.install([parseRequirement("cow")]),
      EnvironmentNotReadyError,
      "there is no uv beside",
    );
    assertStringIncludes(error.fix, "-m pip install uv");
  },
});

/** Makes an environment without any package; its Python. */
async function emptyEnvironment(folder: string): Promise<string> {
  const { success, stderr } = await runPython(["-m", "venv", "--without-pip", `${folder}/venv`]);
  assert(success, stderr);
  return `${folder}/venv/bin/python`;
}

async function open(folder: string, python: string): Promise<PackageFolder> {
  const interpreter = await inspectInterpreter(python);
  const workspace = `${folder}/work`;
  await Deno.mkdir(workspace);
  const options = { cacheDir: `${folder}/cache` };
  return await PackageFolder.open(workspace, { ...interpreter, managed: false }, options);
}

function isFile(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch {
    return false; // which is what is asked
  }
}
