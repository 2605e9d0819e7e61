import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { ipybox } from "../support/cli.ts";
import { rawServer } from "../support/mcp.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { ipyboxAtTerminal } from "../support/terminal.ts";
import { readDotenv } from "../../src/mcp/env.ts";
import { loadPolicy } from "../../src/approval/rules/file.ts";
import { recordVariables } from "../../src/sandbox/own_variables.ts";
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
  await Deno.writeTextFile(`${workspace}/.ipybox/policy.json`, POLICY);
  const mcpServers = { raw: { ...rawServer(), env: { KEY: "${OLD}" } } };
  await Deno.writeTextFile(`${workspace}/.ipybox/mcp.json`, JSON.stringify({ mcpServers }));
  return folder;
}

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
