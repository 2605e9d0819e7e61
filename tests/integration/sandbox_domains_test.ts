/** Packages from the index, in a sandbox that lets through only its domains. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { dirname } from "node:path";
import { fileHosts } from "../../src/python/file_hosts.ts";
import { readIndexSettings } from "../../src/python/indexes.ts";
import { TestExecutor } from "../support/executor.ts";
import { testPython } from "../support/python.ts";
import { testIf } from "../support/skip.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { rejection } from "../support/wait.ts";
import { namedProgram } from "../../src/process/program.ts";

const executable = testPython();
const uv = namedProgram(`${dirname(executable)}/uv`);
const { indexes, hosts } = await readIndexSettings({ executable }, { uv });
/** Where the files of `six` are; nowhere, if the index cannot be reached from here at all. */
const files = await fileHosts(indexes, "six");

testIf(files.length > 0, "the package index cannot be reached", {
  name: "%pip installs from the package index where the sandbox lets its domains through",
  fn: async () => {
    await using folder = await TempFolder.create();
    const config = `${folder.path}/sandbox.json`;
    await Deno.writeTextFile(
      config,
      JSON.stringify({ network: { allowedDomains: [...hosts, ...files] } }),
    );
    await using test = await TestExecutor.start({ sandbox: { config } });
    const { executor } = test;

    await executor.execute("%pip install --quiet --no-deps --target packages six==1.17.0");

    const imported = "import sys; sys.path.append('packages'); import six; six.__version__";
    assertEquals((await executor.execute(imported)).text, "'1.17.0'");
    const elsewhere = "import urllib.request; urllib.request.urlopen('https://example.org/')";
    assertStringIncludes(String(await rejection(executor.execute(elsewhere))), "403");
  },
});
