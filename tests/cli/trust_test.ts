import { assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { ToolCallError } from "../../src/base/errors.ts";
import { ToolRunner } from "../../src/calls/runner.ts";
import { ipybox } from "../support/cli.ts";
import { rawServer } from "../support/mcp.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { ipyboxAtTerminal } from "../support/terminal.ts";
import { readDotenv } from "../../src/mcp/env.ts";
import { loadPolicy } from "../../src/approval/rules/file.ts";
import { CODE_NOTE, recordVariables } from "../../src/sandbox/own_variables.ts";
import { ServerRegistry } from "../../src/servers/registry.ts";
import { startEvidence } from "../../src/servers/start_evidence.ts";
import { silentLogger } from "../../src/base/log.ts";

const POLICY = '{"rules": [{"effect": "allow", "tool": "raw.count"}]}';

/** A workspace in which code ran, and to whose settings something was added since. */
async function changedWorkspace(): Promise<TempFolder> {
  const folder = await TempFolder.create();
  const workspace = folder.path;
  await Deno.writeTextFile(`${workspace}/.env`, "OLD=1\n");
  await recordVariables(workspace);
  await Deno.writeTextFile(`${workspace}/.env`, "OLD=2\nADDED=secret value\n");
  await Deno.mkdir(`${workspace}/.ipybox`);
  await Deno.writeTextFile(`${workspace}/${CODE_NOTE}`, "");
  await Deno.writeTextFile(`${workspace}/.ipybox/policy.json`, POLICY);
  const mcpServers = { raw: { ...rawServer(), env: { KEY: "${OLD}" } } };
  await Deno.writeTextFile(`${workspace}/.ipybox/mcp.json`, JSON.stringify({ mcpServers }));
  return folder;
}

Deno.test("ipybox trust --list shows what was accepted, and --revoke takes it back", async () => {
  await using folder = await changedWorkspace();
  await using state = await TempFolder.create();
  const env = { XDG_STATE_HOME: state.path };
  const trust = async (...args: string[]) => await ipybox(["trust", ...args], { env });
  assertEquals((await trust("--list")).stdout, "");
  assertEquals((await trust("--yes", folder.path)).code, 0);
  const rows = ["servers: raw", "variables: ADDED, OLD", "policy: .ipybox/policy.json"];
  const all = `${folder.path}\n${rows.map((row) => `  ${row}\n`).join("")}`;
  assertEquals((await trust("--list")).stdout, all);
  const revoked = await trust("--revoke", folder.path);
  assertEquals([revoked.code, revoked.stdout], [0, ""]);
  assertStringIncludes(revoked.stderr, folder.path);
  assertEquals((await trust("--list")).stdout, "");
  const unasked = await trust(folder.path);
  assertEquals(unasked.stderr.match(/no terminal to ask on/g)?.length, 2);
  assertStringIncludes(unasked.stderr, '"raw" needs ${OLD}'); // whose variables do not count either
  // One that is gone.
  assertEquals((await trust("--yes", folder.path)).code, 0);
  await Deno.remove(folder.path, { recursive: true });
  assertEquals((await trust("--list")).stdout, all);
  assertEquals((await trust("--revoke", folder.path)).code, 0);
  assertEquals((await trust("--list")).stdout, "");
  await Deno.mkdir(folder.path); // to be removed with the test
});

Deno.test("a damaged record is reported once, and what it says does not count", async () => {
  await using folder = await changedWorkspace();
  await using state = await TempFolder.create();
  const options = { cwd: folder.path, env: { XDG_STATE_HOME: state.path } };
  assertEquals((await ipybox(["trust", "--yes"], options)).code, 0);
  for await (const { name } of Deno.readDir(`${state.path}/ipybox/trust`)) {
    if (name.endsWith(".json")) await Deno.writeTextFile(`${state.path}/ipybox/trust/${name}`, "{");
  }
  const { stderr } = await ipybox(["trust"], options);
  assertEquals(stderr.match(/is damaged/g)?.length, 1);
  assertEquals(stderr.match(/no terminal to ask on/g)?.length, 2);
  assertEquals((await ipybox(["trust", "--yes"], options)).code, 0);
  assertStringIncludes((await ipybox(["trust"], options)).stderr, "Nothing to accept");
});

Deno.test("with trust: all, what is there at the start counts, and nothing is recorded", async () => {
  await using folder = await changedWorkspace();
  const workspace = folder.path;
  const options = { workspace, trust: "all", log: silentLogger } as const;
  const policy = await loadPolicy(options);
  assertEquals(policy?.sources[0]?.document.rules[0]?.effect, "allow");
  {
    await using runner = await ToolRunner.start({ ...options, approval: "allow" });
    assertEquals(runner.variables?.("ADDED"), "secret value");
    assertEquals((await runner.run("raw", "count")).isError ?? false, false);
    const { mcpServers } = JSON.parse(await Deno.readTextFile(`${workspace}/.ipybox/mcp.json`));
    const added = { mcpServers: { ...mcpServers, added: rawServer() } };
    await Deno.writeTextFile(`${workspace}/.ipybox/mcp.json`, JSON.stringify(added));
    await runner.reset();
    await assertRejects(() => runner.run("added", "count"), ToolCallError, "was not started");
  }
  assertEquals(await counting(workspace), NONE);
  await using runner = await ToolRunner.start({ ...options, trust: "recorded" });
  await assertRejects(() => runner.run("raw", "count"), ToolCallError, "was not started");
});

Deno.test("ipybox run asks about new settings at a terminal, once, and runs without those refused", async () => {
  await using folder = await changedWorkspace();
  const cwd = folder.path;
  const run = async (answers: readonly (readonly [string, string])[]) => {
    const { code, output } = await ipyboxAtTerminal(["run", "-c", "print(6 * 7)"], answers, {
      cwd,
    });
    assertEquals(code, 0, output);
    assertStringIncludes(output, "42");
    return output;
  };
  const first = await run([
    ["use them? [y/N]", "n\n"],
    ["call raw? [y/N]", "y\n"],
    ["Accept it? [y/N]", "y\n"],
  ]);
  assertStringIncludes(first, "were not accepted");
  assertEquals(await counting(cwd), { ...ALL, variables: { OLD: "2" } });
  await run([["use them? [y/N]", "y\n"]]);
  assertEquals((await run([])).includes("[y/N]"), false);
  await Deno.writeTextFile(`${cwd}/.ipybox/policy.json`, POLICY.replace("raw.count", "raw.*"));
  await run([["Accept it? [y/N]", "y\n"]]); // an editor's change
  assertEquals((await run([])).includes("[y/N]"), false);
});

Deno.test("ipybox run --trust lets the settings of a workspace count once", async () => {
  await using folder = await changedWorkspace();
  await Deno.writeTextFile(`${folder.path}/.env`, "OLD=2\nKERNEL_ENV_ADDED=in the kernel\n");
  const code = `
import os
from ipybox_runtime import ToolRunner
print(os.environ.get("ADDED"))
try:
    print(ToolRunner("raw").run_sync("count").text)
except Exception as error:
    print(type(error).__name__)`;
  const run = async (...args: string[]) =>
    (await ipybox(["run", "--approve", "allow", "-c", code, ...args], { cwd: folder.path })).stdout;
  assertEquals(await run("--trust"), "in the kernel\n1\n");
  assertMatch(await run(), /^None\n\w+Error\n$/);
});

/** What counts of the settings in a workspace. */
async function counting(workspace: string): Promise<unknown> {
  const registry = await ServerRegistry.open({ workspace });
  const params = registry.get("raw");
  const evidence = params && await startEvidence("raw", params, { workspace, log: silentLogger });
  const policy = await loadPolicy({ workspace, log: silentLogger });
  return {
    variables: await readDotenv(workspace),
    server: params !== undefined && evidence !== undefined && registry.isOwn("raw", params) &&
      registry.isUnchanged("raw", evidence),
    rule: policy?.sources[0]?.document.rules[0]?.effect,
  };
}

const ALL = { variables: { OLD: "2", ADDED: "secret value" }, server: true, rule: "allow" };
const NONE = { variables: { OLD: "2" }, server: false, rule: "ask" };

Deno.test("ipybox trust without a terminal shows what does not count yet, and changes nothing", async () => {
  await using folder = await changedWorkspace();
  const { code, stdout, stderr } = await ipybox(["trust"], { cwd: folder.path });
  assertEquals({ code, stdout }, { code: 1, stdout: "" });
  assertMatch(stderr, /\.env has variables that .* wrote \(1\):\n.*ADDED/);
  assertStringIncludes(stderr, 'MCP server "raw": you have not registered it');
  assertStringIncludes(stderr, rawServer().command);
  assertMatch(stderr, /raw\.count/);
  assertEquals(stderr.match(/no terminal to ask on/g)?.length, 3);
  assertEquals(stderr.includes("secret value"), false);
  assertEquals(await counting(folder.path), NONE);
});

Deno.test("ipybox trust --yes accepts all settings of a workspace, until one changes", async () => {
  await using folder = await changedWorkspace();
  const cwd = folder.path;
  const first = await ipybox(["trust", "--yes"], { cwd });
  assertEquals(first.code, 0, first.stderr);
  assertEquals(await counting(cwd), ALL);
  const again = await ipybox(["trust"], { cwd });
  assertEquals(again.code, 0);
  assertStringIncludes(again.stderr, "Nothing to accept");
  await Deno.writeTextFile(`${cwd}/.ipybox/policy.json`, POLICY.replace("raw.count", "raw.*"));
  const changed = await ipybox(["trust"], { cwd });
  assertEquals(changed.code, 1);
  assertEquals(changed.stderr.match(/no terminal to ask on/g)?.length, 1);
});

Deno.test("ipybox trust asks about each setting at a terminal", async () => {
  await using folder = await changedWorkspace();
  const { code, output } = await ipyboxAtTerminal(["trust"], [
    ["use them? [y/N]", "y\n"],
    ["call raw? [y/N]", "n\n"],
    ["Accept it? [y/N]", "y\n"],
  ], { cwd: folder.path });
  assertEquals(code, 1, output);
  assertStringIncludes(output, 'MCP server "raw" was not accepted');
  assertEquals(await counting(folder.path), { ...ALL, server: false });
});
