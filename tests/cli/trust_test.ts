import { assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { ToolCallError } from "../../src/base/errors.ts";
import { ToolRunner } from "../../src/calls/runner.ts";
import { cliArguments, ipybox } from "../support/cli.ts";
import { rawServer } from "../support/mcp.ts";
import { decisionOnCount } from "../support/policy.ts";
import { testIf } from "../support/skip.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { ipyboxAtTerminal } from "../support/terminal.ts";
import { readDotenv } from "../../src/mcp/env.ts";
import { readSandboxConfig } from "../../src/sandbox/config.ts";
import { CODE_NOTE, recordVariables } from "../../src/sandbox/own_variables.ts";
import { ServerRegistry } from "../../src/servers/registry.ts";
import { startEvidence } from "../../src/servers/start_evidence.ts";
import { silentLogger } from "../../src/base/log.ts";

const POLICY = '{"rules": [{"effect": "allow", "server": "raw", "tool": "count"}]}';

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
  const gone = all.replace(folder.path, `${folder.path} (gone)`);
  assertEquals((await trust("--list")).stdout, gone);
  assertEquals((await trust("--revoke", folder.path)).code, 0);
  assertEquals((await trust("--list")).stdout, "");
  await Deno.mkdir(folder.path); // to be removed with the test
  const both = await trust("--list", "--revoke");
  assertEquals(both.code, 2);
  assertStringIncludes(both.stderr, "Options --revoke and --list cannot be combined");
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
  assertEquals(await decisionOnCount(options), "allow");
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

Deno.test("ipybox run asks about new settings at a terminal once, and runs without those refused", async () => {
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
  const second = await run([]);
  assertEquals(second.includes("[y/N]"), false);
  assertStringIncludes(second, "ignored ADDED");
  await Deno.writeTextFile(`${cwd}/.env`, "OLD=2\nADDED=another value\n");
  await run([["use them? [y/N]", "n\n"]]);
  const trusted = await ipyboxAtTerminal(["trust"], [["use them? [y/N]", "y\n"]], { cwd });
  assertEquals(trusted.code, 0, trusted.output);
  assertEquals((await run([])).includes("[y/N]"), false);
  await Deno.writeTextFile(`${cwd}/.ipybox/policy.json`, POLICY.replace("count", "*"));
  await run([["Accept it? [y/N]", "y\n"]]); // an editor's change
  assertEquals((await run([])).includes("[y/N]"), false);
});

Deno.test("what was refused is asked about again once it was accepted and revoked", async () => {
  await using folder = await changedWorkspace();
  const cwd = folder.path;
  const refuse = async () =>
    await ipyboxAtTerminal(["run", "-c", "1"], [
      ["use them? [y/N]", "y\n"],
      ["call raw? [y/N]", "n\n"],
      ["Accept it? [y/N]", "n\n"],
    ], { cwd });
  assertEquals((await refuse()).code, 0);
  assertEquals((await ipybox(["trust", "--yes"], { cwd })).code, 0);
  assertEquals((await ipybox(["trust", "--revoke"], { cwd })).code, 0);
  assertEquals((await refuse()).code, 0);
});

Deno.test("ipybox trust shows how a setting differs from what was accepted before", async () => {
  await using folder = await changedWorkspace();
  const cwd = await Deno.realPath(folder.path);
  const write = async (allowed: string, arg: string, domain: string) => {
    const denied = Array.from({ length: 20 }, (_, at) => ({ effect: "deny", tool: `no.${at}` }));
    const rules = [...denied, { effect: "allow", tool: allowed }];
    const raw = { ...rawServer(), env: { TOKEN: `secret of ${arg}`, ARG: arg } };
    const network = { allowedDomains: ["example.com", domain] };
    const files = { policy: { rules }, mcp: { mcpServers: { raw } }, sandbox: { network } };
    for (const [name, content] of Object.entries(files)) {
      await Deno.writeTextFile(`${cwd}/.ipybox/${name}.json`, JSON.stringify(content, null, 1));
    }
  };
  await write("raw.one", "old", "old.example");
  await readSandboxConfig(`${cwd}/.ipybox/sandbox.json`, { workspace: cwd });
  assertEquals((await ipybox(["trust", "--yes"], { cwd })).code, 0);
  await write("raw.two", "new", "new.example");

  const { stderr } = await ipybox(["trust", "--yes"], { cwd });

  const changes = [...stderr.matchAll(/^ {2}\| [-+] .*$/gm)].map(([row]) => row.slice(4));
  const expected = [
    /^-.*ARG=old/,
    /^\+.*ARG=new/,
    /old\.example/,
    /new\.example/,
    /raw\.one/,
    /raw\.two/,
  ];
  for (const [at, sign] of ["-", "+", "-", "+", "-", "+"].entries()) {
    const found = changes.filter((text) => text.startsWith(sign) && expected[at]?.test(text));
    assertEquals(found.length, 1, `${expected[at]} in ${changes.join("\n")}`);
  }
  for (const unchanged of ["no.3", "secret of old"]) {
    assertEquals(stderr.includes(unchanged), false, unchanged);
  }
});

Deno.test("two processes that ask about the same settings keep what both are told", async () => {
  await using folder = await changedWorkspace();
  const workspace = folder.path;
  const mcpServers = { raw: rawServer(), more: rawServer() };
  await Deno.writeTextFile(`${workspace}/.ipybox/mcp.json`, JSON.stringify({ mcpServers }));
  // This one has read what counts, and asks.
  const registry = await ServerRegistry.open({ workspace });
  const params = registry.get("raw");
  if (params === undefined) throw new Error("It is not in the file");
  const evidence = await startEvidence("raw", params, { workspace, log: silentLogger });
  // Others ask, too, and are told earlier.
  const others = await Promise.all(
    [1, 2, 3].map(() => ipybox(["trust", "--yes"], { cwd: workspace })),
  );
  assertEquals(others.map(({ code }) => code), [0, 0, 0]);
  await registry.adopt("raw", params, evidence);
  assertEquals(await counting(workspace), ALL);
  const { stderr } = await ipybox(["trust"], { cwd: workspace });
  assertStringIncludes(stderr, "Nothing to accept");
});

testIf(
  Deno.build.os === "linux",
  "only bwrap mounts anything without being root",
  {
    name:
      "settings on a read-only disk count once they were accepted, as far as that can be recorded",
    fn: async () => {
      await using folder = await changedWorkspace();
      await using state = await TempFolder.create();
      const workspace = await Deno.realPath(folder.path);
      const on = async (disk: string, ...args: string[]) => {
        const mounts = ["--dev-bind", "/", "/", "--ro-bind", disk, disk, "--"];
        const { code, stderr } = await new Deno.Command("bwrap", {
          args: [...mounts, Deno.execPath(), ...cliArguments, ...args],
          cwd: workspace,
          env: { XDG_STATE_HOME: state.path, NO_COLOR: "1" },
        }).output();
        return [code, new TextDecoder().decode(stderr)] as const;
      };
      const unkept = /counts in this process only: the state folder .* is not writable/g;
      const env = { XDG_STATE_HOME: state.path };
      for (const _again of [1, 2]) {
        const [code, stderr] = await on(state.path, "trust", "--yes");
        assertEquals([code, stderr.match(unkept)?.length], [1, 1], stderr);
        assertMatch(stderr, /Accepted MCP server "raw"/);
      }
      const [accepted, stderr] = await on(workspace, "trust", "--yes");
      assertEquals(accepted, 0, stderr);
      assertStringIncludes((await ipybox(["trust"], { cwd: workspace, env })).stderr, "Nothing to");
      const [refused, why] = await on(workspace, "run", "-c", "1");
      assertEquals(refused, 2, why);
      assertMatch(why, /cannot be written to: .*only read this folder: ipybox mcp --project/);
      const [unserved, reason] = await on(state.path, "mcp", "--http", "0");
      assertEquals(unserved, 2, reason);
      assertStringIncludes(reason, "is not writable. Set XDG_STATE_HOME");
    },
  },
);

Deno.test("where the state folder cannot be written to, each session asks, and goes by the answers", async () => {
  await using folder = await changedWorkspace();
  const [cwd, env] = [folder.path, { XDG_STATE_HOME: "/sys" }];
  const code = `
from ipybox_runtime import ToolRunner
print(ToolRunner("raw").run_sync("count").text, "call")`;
  for (const _session of [1, 2]) {
    const { output } = await ipyboxAtTerminal(["run", "-c", code], [
      ["use them? [y/N]", "y\n"],
      ["call raw? [y/N]", "y\n"],
      ["Accept it? [y/N]", "y\n"],
    ], { cwd, env });
    assertEquals(output.match(/counts in this process only/g)?.length, 1, output);
    assertStringIncludes(output, "1 call"); // neither the server nor the call is asked about
  }
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
  return {
    variables: await readDotenv(workspace),
    server: params !== undefined && evidence !== undefined && registry.isOwn("raw", params) &&
      registry.isUnchanged("raw", evidence),
    rule: await decisionOnCount({ workspace }),
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
  assertMatch(stderr, /"tool": ?"count"/);
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
  const code = `
from ipybox_runtime import ToolRunner
print(ToolRunner("raw").run_sync("count").text)`;
  const job = await ipybox(["run", "-c", code], { cwd }); // in CI, where nobody can be asked
  assertEquals([job.stdout, job.stderr.includes("trust")], ["1\n", false], job.stderr);
  await Deno.writeTextFile(`${cwd}/.ipybox/policy.json`, POLICY.replace("count", "*"));
  const changed = await ipybox(["trust"], { cwd });
  assertEquals(changed.code, 1);
  assertEquals(changed.stderr.match(/no terminal to ask on/g)?.length, 1);
});
