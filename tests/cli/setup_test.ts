import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { PackageFolder } from "../../src/python/packages.ts";
import type { Prerequisite } from "../../src/sandbox/prerequisites.ts";
import type { ProgramEnd } from "../../src/process/run_program.ts";
import { inThisProcess } from "../support/command_io.ts";
import { runProgram } from "../support/program.ts";
import { denoDirectory } from "../support/temp_cache.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { withUv } from "../support/uv.ts";
import { testPython } from "../support/python.ts";

const cli = new URL("../../cli.ts", import.meta.url).pathname;

Deno.test("ipybox doctor says what is missing, ipybox setup builds it, then doctor finds all ready, and what servers lack", async () => {
  await using home = await TempFolder.create();
  await using programs = await TempFolder.create();
  await using empty = await TempFolder.create();
  await using workspace = await TempFolder.create();
  await Deno.mkdir(`${workspace.path}/.ipybox`);
  const mcpServers = {
    gone: { command: "no-such-program-of-ipybox" },
    here: { command: "cat", env: { A: "${HOME}" } },
    remote: { url: "https://mcp.example/mcp", headers: { Authorization: "${NO_SUCH_TOKEN}" } },
  };
  await Deno.writeTextFile(`${workspace.path}/.ipybox/mcp.json`, JSON.stringify({ mcpServers }));
  const own = { XDG_CACHE_HOME: `${home.path}/cache`, IPYBOX_PYTHON: "" };
  const env = { ...own, ...await withUv(programs.path) };

  const before = await ipybox(["doctor", "--json"], { ...env, PATH: empty.path });
  const first = await ipybox(["setup"], env);
  const second = await ipybox(["setup", "--json"], env);
  const after = await ipybox(["doctor", "--json", "--workspace", workspace.path], env);

  assertEquals([before.code, JSON.parse(before.stdout).ready], [3, false]);
  const lacking = new Map(rows(before.stdout).map((row) => [row.name, row]));
  const { state, detail, fix } = lacking.get("ripgrep") ?? {};
  assertEquals([state, detail, fix === null], ["missing", "rg is not on the PATH", false]);
  assertEquals(lacking.get("Python"), {
    name: "Python",
    state: "missing",
    version: null,
    detail: "The managed Python environment has not been built yet",
    fix: "ipybox setup",
  });
  assertEquals(first.code, 0);
  assertStringIncludes(first.stderr, "ipybox installs:\n  - a Python environment");
  assertStringIncludes(first.stdout, "Everything is set up");
  assertEquals([second.code, second.stderr], [0, ""]);
  // What a program asks for: the Python that runs kernels.
  const ready = JSON.parse(second.stdout);
  assertEquals([ready.python, ready.installed], [JSON.parse(after.stdout).python, []]);
  assertEquals(after.code, 0, after.stdout);
  const found = new Map(
    rows(after.stdout).map(({ name, state, detail }) => [name, `${state} ${detail}`]),
  );
  for (const name of ["Deno", "Python", "ipykernel", "pydantic", "srt", "ripgrep"]) {
    assert(found.has(name), name);
  }
  assertMatch(found.get("kernel") ?? "", /^ok runs code in the sandbox \(\d+\.\d s\)$/);
  assertMatch(found.get("server gone") ?? "", /^warn no-such-program-of-ipybox is not on the PATH/);
  assertMatch(found.get("server here") ?? "", /^ok \/.*\/cat$/);
  assertMatch(
    found.get("server remote") ?? "",
    /^warn MCP server "remote" needs \$\{NO_SUCH_TOKEN\}/,
  );
});

Deno.test("ipybox setup --python checks that Python and installs nothing", async () => {
  const good = await inThisProcess(["setup", "--json", "--python", testPython()]);
  const bad = await ipybox(["setup", "--python", "/bin/false"], {});

  assertEquals([good.code, good.stderr], [0, ""]);
  const { python, installed } = JSON.parse(good.stdout);
  assertEquals([python, installed], [testPython(), []]);
  assertEquals(bad.code, 3);
  assertStringIncludes(bad.stderr, `Cannot use "/bin/false" as Python`);
});

Deno.test("a folder of the user's that cannot be written is named with what moves it", async () => {
  const isMac = Deno.build.os === "darwin"; // which has no /sys, where root cannot write either
  const env = { IPYBOX_PYTHON: "", DENO_DIR: await denoDirectory() };
  const home = isMac ? "/dev" : "/sys";

  const setup = ["setup", "--no-sandbox"];
  const byHome = await ipybox(setup, { ...env, HOME: home, XDG_CACHE_HOME: "" });
  const byVariable = await ipybox(setup, { ...env, XDG_CACHE_HOME: home });
  const noFolder = await ipybox(["policy", "check"], { XDG_CONFIG_HOME: "/dev/null" });

  const end = "to a folder that you can write to\n";
  assertStringIncludes(byHome.stderr, `; set HOME or XDG_CACHE_HOME ${end}`);
  assertStringIncludes(byVariable.stderr, `'${home}/ipybox/python'; set XDG_CACHE_HOME ${end}`);
  const missing = "'/dev/null/ipybox/policy.json'";
  assertStringIncludes(noFolder.stderr, `${missing}; set XDG_CONFIG_HOME ${end}`);
});

Deno.test("ipybox finds the user's home directory where HOME is not set", async () => {
  await using workspace = await TempFolder.create();
  const args = ["packages", "--python", testPython(), "--workspace", workspace.path];
  const { code, stderr } = await ipybox(args, { XDG_CACHE_HOME: "", HOME: "" });
  await PackageFolder.remove(workspace.path);
  assertEquals(code, 0, stderr);
});

async function ipybox(
  args: readonly string[],
  env: Record<string, string>,
): Promise<ProgramEnd> {
  return await runProgram(Deno.execPath(), ["run", "-A", "--quiet", cli, ...args], {
    // Deno's own cache lies below XDG_CACHE_HOME, too, unless it is told otherwise.
    env: { ...env, DENO_DIR: await denoDirectory() },
  });
}

function rows(json: string): readonly Prerequisite[] {
  return JSON.parse(json).prerequisites;
}
