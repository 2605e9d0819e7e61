/** Packages from the index, in a sandbox that lets through only its domains. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { rejection, TestExecutor } from "../support/executor.ts";
import { testIf } from "../support/skip.ts";
import { TempFolder } from "../support/temp_folder.ts";

const INDEX = ["index.example", "files.index.example"];

/** Why the index cannot be reached from here at all. */
const unreachable = await (async (): Promise<string | undefined> => {
  const signal = AbortSignal.timeout(10_000);
  try {
    const answer = await fetch(`https://${INDEX[0]}/simple/six/`, { signal });
    await answer.body?.cancel();
    return answer.ok ? undefined : `the package index answers with ${answer.status}`;
  } catch (error) {
    return `the package index cannot be reached: ${error}`;
  }
})();

testIf(unreachable === undefined, unreachable ?? "", {
  name: "%pip installs from the package index where the sandbox lets its domains through",
  fn: async () => {
    await using folder = await TempFolder.create();
    const config = `${folder.path}/sandbox.json`;
    await Deno.writeTextFile(config, JSON.stringify({ network: { allowedDomains: INDEX } }));
    await using test = await TestExecutor.start({ sandbox: { config } });
    const { executor } = test;

    await executor.execute("%pip install --quiet --no-deps --target packages six==1.17.0");

    const imported = "import sys; sys.path.append('packages'); import six; six.__version__";
    assertEquals((await executor.execute(imported)).text, "'1.17.0'");
    const elsewhere = "import urllib.request; urllib.request.urlopen('https://example.org/')";
    assertStringIncludes(String(await rejection(executor.execute(elsewhere))), "403");
  },
});
