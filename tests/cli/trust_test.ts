import { assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { ToolCallError } from "../../src/base/errors.ts";
import { ToolRunner } from "../../src/calls/runner.ts";
import { cliArguments, ipybox } from "../support/cli.ts";
import { inThisProcess } from "../support/command_io.ts";
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
  const trust = async (...args: string[]) => await inThisProcess(["trust", ...args]);
  const listed = async () => {
    const blocks = (await trust("--list")).stdout.split(/^(?=\/)/m);
    return blocks.filter((block) => block.startsWith(folder.path)).join("");
  };
  assertEquals(await listed(), `${folder.path}\n  variables: OLD\n`);
  assertEquals((await trust("--yes", folder.path)).code, 0);
  const rows = ["servers: raw", "variables: ADDED, OLD", "policy: .ipybox/policy.json"];
  const all = `${folder.path}\n${rows.map((row) => `  ${row}\n`).join("")}`;
  assertEquals(await listed(), all);
  const revoked = await trust("--revoke", folder.path);
  assertEquals([revoked.code, revoked.stdout], [0, ""]);
  assertStringIncludes(revoked.stderr, folder.path);
  assertEquals(await listed(), "");
  const unasked = await trust(folder.path);
  assertEquals(unasked.stderr.match(/no terminal to ask on/g)?.length, 2);
  assertStringIncludes(unasked.stderr, '"raw" needs ${OLD}'); // whose variables do not count either
  // One that is gone.
  assertEquals((await trust("--yes", folder.path)).code, 0);
  await Deno.remove(folder.path, { recursive: true });
  const gone = all.replace(folder.path, `${folder.path} (gone)`);
  assertEquals(await listed(), gone);
  assertEquals((await trust("--revoke", folder.path)).code, 0);
  assertEquals(await listed(), "");
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

/** Asks as `ipybox run` does at a terminal, then ends for want of a Python. */
async function ask(workspace: string, answers: Answers): Promise<void> {
  const args = ["run", "-c", "1", "--python", "/bin/false"];
  const { code, stderr } = await inThisProcess(args, { workspace, answers });
  assertEquals(code, 3, stderr);
}

type Answers = readonly (readonly [string, string])[];

Deno.test("ipybox run asks about new settings at a terminal once, and runs without those refused", async () => {
  await using folder = await changedWorkspace();
  const cwd = folder.path;
  await Deno.writeTextFile(`${cwd}/.env`, "OLD=2\nKERNEL_ENV_ADDED=in the kernel\n");
  const code = "import os; print(6 * 7, os.environ.get('ADDED'))";
  const first = await ipyboxAtTerminal(["run", "--no-sandbox", "-c", code], [
    ["use them? [y/N]", "n\n"],
    ["call raw? [y/N]", "y\n"],
    ["Accept it? [y/N]", "y\n"],
  ], { cwd });
  assertEquals(first.code, 0, first.output);
  for (const text of ["were not accepted", "ignored KERNEL_ENV_ADDED", "42 None"]) {
    assertStringIncludes(first.output, text);
  }
  assertEquals(await counting(cwd), { ...ALL, variables: { OLD: "2" } });
  await ask(cwd, []);
  await Deno.writeTextFile(`${cwd}/.env`, "OLD=2\nKERNEL_ENV_ADDED=another value\n");
  await ask(cwd, [["use them? [y/N]", "n"]]);
  const trusted = await inThisProcess(["trust", cwd], { answers: [["use them? [y/N]", "y"]] });
  assertEquals(trusted.code, 0, trusted.stderr);
  await ask(cwd, []);
  await Deno.writeTextFile(`${cwd}/.ipybox/policy.json`, POLICY.replace("count", "*"));
  await ask(cwd, [["Accept it? [y/N]", "y"]]); // an editor's change
  await ask(cwd, []);
});

Deno.test("what was refused is asked about again once it was accepted and revoked", async () => {
  await using folder = await changedWorkspace();
  const refuse = () =>
    ask(folder.path, [["use them? [y/N]", "y"], ["call raw? [y/N]", "n"], [
      "Accept it? [y/N]",
      "n",
    ]]);
  await refuse();
  for (const option of ["--yes", "--revoke"]) {
    assertEquals((await inThisProcess(["trust", option, folder.path])).code, 0);
  }
  await refuse();
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
  assertEquals((await inThisProcess(["trust", "--yes", cwd])).code, 0);
  await write("raw.two", "new", "new.example");

  const { stderr } = await inThisProcess(["trust", "--yes", cwd]);

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
  const { stderr } = await inThisProcess(["trust", workspace]);
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
  // Neither the server nor the call is asked about. The second session has no Python to start.
  for (
    const [python, shown] of [[[], "1 call"], [["--python", "/bin/false"], "Cannot use"]] as const
  ) {
    const { output } = await ipyboxAtTerminal(["run", "-c", code, "--no-sandbox", ...python], [
      ["use them? [y/N]", "y\n"],
      ["call raw? [y/N]", "y\n"],
      ["Accept it? [y/N]", "y\n"],
    ], { cwd, env });
    assertEquals(output.match(/counts in this process only/g)?.length, 1, output);
    assertStringIncludes(output, shown);
  }
});

Deno.test("ipybox run --trust lets the settings of a workspace count once", async () => {
  await using folder = await changedWorkspace();
  await Deno.writeTextFile(`${folder.path}/.env`, "OLD=2\nKERNEL_ENV_ADDED=in the kernel\n");
  const code = `
import os
from ipybox_runtime import ToolRunner
print(os.environ.get("ADDED"))
print(ToolRunner("raw").run_sync("count").text)`;
  const args = ["run", "--no-sandbox", "--approve", "allow", "--trust", "-c", code];
  const { stdout, stderr } = await inThisProcess(args, { workspace: folder.path });
  assertEquals(stdout, "in the kernel\n1\n", stderr);
  assertEquals(await counting(folder.path), NONE);
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
  const { code, stdout, stderr } = await inThisProcess(["trust", folder.path]);
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
  const first = await inThisProcess(["trust", "--yes", cwd]);
  assertEquals(first.code, 0, first.stderr);
  assertEquals(await counting(cwd), ALL);
  const again = await inThisProcess(["trust", cwd]);
  assertEquals(again.code, 0);
  assertStringIncludes(again.stderr, "Nothing to accept");
  const code = `
from ipybox_runtime import ToolRunner
print(ToolRunner("raw").run_sync("count").text)`;
  // In CI, where nobody can be asked.
  const job = await inThisProcess(["run", "--no-sandbox", "-c", code], { workspace: cwd });
  assertEquals([job.stdout, job.stderr.includes("trust")], ["1\n", false], job.stderr);
  await Deno.writeTextFile(`${cwd}/.ipybox/policy.json`, POLICY.replace("count", "*"));
  const changed = await inThisProcess(["trust", cwd]);
  assertEquals(changed.code, 1);
  assertEquals(changed.stderr.match(/no terminal to ask on/g)?.length, 1);
});
