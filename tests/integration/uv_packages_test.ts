/** Packages for a Python that has no pip of its own. */
import { assertEquals, assertRejects } from "@std/assert";
import { EnvironmentNotReadyError } from "../../src/base/errors.ts";
import { inspectInterpreter } from "../../src/python/interpreter.ts";
import { PackageFolder } from "../../src/python/packages.ts";
import { parseRequirement } from "../../src/python/requirement.ts";
import { testPython } from "../support/python.ts";
import { testIf } from "../support/skip.ts";
import { TempFolder } from "../support/temp_folder.ts";

const hasUv = (Deno.env.get("PATH") ?? "").split(":").some((folder) => isFile(`${folder}/uv`));

testIf(hasUv, "uv is not on the PATH: pip install uv", {
  name: "PackageFolder installs by uv where a Python has no pip",
  fn: async () => {
    await using folder = await TempFolder.create();
    const packages = await withoutPip(folder.path);
    await packages.install([parseRequirement("iniconfig==2.0.0")]);
    const names = await Array.fromAsync(Deno.readDir(packages.path), ({ name }) => name);
    assertEquals(names.includes("iniconfig"), true);
  },
});

testIf(!hasUv, "uv is on the PATH", {
  name: "PackageFolder says how packages can be installed where there is neither pip nor uv",
  fn: async () => {
    await using folder = await TempFolder.create();
    const packages = await withoutPip(folder.path);
    await assertRejects(
      () => packages.install([parseRequirement("iniconfig")]),
      EnvironmentNotReadyError,
      "has no pip, and there is no uv on the PATH",
    );
  },
});

/** A folder for the packages of a Python that has no pip. */
async function withoutPip(folder: string): Promise<PackageFolder> {
  const { success } = await new Deno.Command(testPython(), {
    args: ["-m", "venv", "--without-pip", `${folder}/venv`],
  }).output();
  assertEquals(success, true);
  const python = await inspectInterpreter(`${folder}/venv/bin/python`);
  return await PackageFolder.open(folder, { ...python, managed: false }, {
    cacheDir: `${folder}/cache`,
  });
}

function isFile(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch {
    return false; // which is what is asked
  }
}
