/** What is said where code imports a server that is not there. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { CodeExecutionError } from "../../src/base/errors.ts";
import { TestExecutor } from "../support/executor.ts";
import { rejection } from "../support/wait.ts";

Deno.test("code that imports a misspelt server is told which one is meant, also where no check sees it", async () => {
  await using test = await TestExecutor.start({ check: "off" });
  const { executor, workspace } = test;
  for (const server of ["github", "files"]) {
    await Deno.mkdir(`${workspace}/mcptools/${server}`, { recursive: true });
    await Deno.writeTextFile(`${workspace}/mcptools/${server}/__init__.py`, "");
  }
  const said = async (code: string) => {
    const error = await rejection(executor.execute(code));
    if (!(error instanceof CodeExecutionError)) throw error;
    const { ename, evalue, traceback } = error;
    assertStringIncludes(traceback, `${ename}: ${evalue}`);
    return `${ename}: ${evalue}`;
  };
  assertEquals(
    await said("import mcptools.githb"),
    "ModuleNotFoundError: No module named 'mcptools.githb'. Did you mean: 'mcptools.github'? " +
      "Registered servers: files, github",
  );
  assertEquals(
    await said("from mcptools import githb"),
    "ImportError: cannot import name 'githb' from 'mcptools'. Did you mean: 'github'? " +
      "Registered servers: files, github",
  );
  assertEquals(
    await said("__import__('importlib').import_module('mcptools.weather')"),
    "ModuleNotFoundError: No module named 'mcptools.weather'. Registered servers: files, github",
  );
  assertEquals(
    await said("import mcptools.github.nothing"),
    "ModuleNotFoundError: No module named 'mcptools.github.nothing'",
  );
});
