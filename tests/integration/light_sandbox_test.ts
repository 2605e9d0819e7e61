/** What of the sandbox runs as long as a session does. */
import { assert, assertEquals } from "@std/assert";
import { TestExecutor } from "../support/executor.ts";
import { processesWith } from "../support/processes.ts";
import { testIf } from "../support/skip.ts";

const RUNTIME = ["deno", "node", "socat", "srt"];

testIf(Deno.build.os === "linux", "other systems have no list of processes to look at", {
  name: "a session that may reach no host has nothing but its code and its sandbox",
  fn: async () => {
    await using test = await TestExecutor.start();
    const programs = await programsOf(test);
    assert(programs.includes("bwrap"), programs.join(" ")); // they are found at all
    assertEquals(programs.filter((name) => RUNTIME.includes(name)), []);
  },
});

testIf(Deno.build.os === "linux", "other systems make nothing in the place of what is not there", {
  name:
    "a session that may reach a host has the relays to the proxy, and leaves no file that must not be made",
  fn: async () => {
    const config = {
      network: { allowedDomains: ["example.org"] },
      filesystem: { denyWrite: ["absent/file.txt"] },
    };
    await using test = await TestExecutor.start({ sandbox: { config } });
    const programs = await programsOf(test);
    assert(programs.includes("socat"), programs.join(" "));
    const { executor, workspace } = test;
    const { text } = await executor.execute(
      "import os\ntry:\n    os.makedirs('absent')\nexcept OSError as error:\n    print('refused')",
    );
    assertEquals(text, "refused");
    await executor[Symbol.asyncDispose]();
    const left = await Array.fromAsync(Deno.readDir(workspace));
    assertEquals(left.filter(({ name }) => name === "absent"), []);
  },
});

/** The names of the programs of a session, each of which has its folder on its command line. */
async function programsOf({ executor }: TestExecutor): Promise<string[]> {
  const { text } = await executor.execute("import os; print(os.environ['HOME'])");
  const root = text?.split("/session/")[0] ?? "";
  const names = await Promise.all((await processesWith(root)).map(async (pid) => {
    const line = await Deno.readTextFile(`/proc/${pid}/cmdline`).catch(() => ""); // it has ended
    return line.split("\0")[0]?.split("/").at(-1) ?? "";
  }));
  return names;
}
