/** Attacks by files that came with a repository: a person accepts one thing, and another one runs. */
import {
  assert,
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import type { ApprovalSetting } from "../../src/approval/policy.ts";
import { parsePolicy } from "../../src/approval/rules/parse.ts";
import { PolicyRules } from "../../src/approval/rules/rules.ts";
import { ToolCallError } from "../../src/base/errors.ts";
import { silentLogger } from "../../src/base/log.ts";
import type { StdioServerParams } from "../../src/mcp/params.ts";
import { ToolRunner } from "../../src/calls/runner.ts";
import { sessionServers } from "../../src/mcp_server/http/session_basis.ts";
import { ServerRegistry } from "../../src/servers/registry.ts";
import { ipybox } from "../support/cli.ts";
import { HttpMcp } from "../support/http_mcp.ts";
import { McpHost } from "../support/mcp_client.ts";
import { RAW } from "../support/mcp_workspace.ts";
import { copiedServer, rawServer } from "../support/mcp.ts";
import { TempFolder } from "../support/temp_folder.ts";

Deno.test("what is asked about a server of a repository is what would run", async () => {
  await using folder = await TempFolder.create();
  const workspace = folder.path;
  const { command, args } = await repository(workspace);
  const params = { command, args, env: { TOKEN: "${HOME:-decoy}", HERE: "${workspaceFolder}" } };
  await plant(workspace, params);
  const { asked, text } = await start(workspace, "reject");
  assertEquals(asked.length, 1);
  const question = asked[0] ?? "";
  assertStringIncludes(question, `${workspace}/.ipybox/w/srv.ts`);
  assertStringIncludes(question, '"TOKEN":"${HOME}"'); // a secret of the environment stays one
  assertStringIncludes(question, `"HERE":"${workspace}"`);
  assertMatch(question, /"\.ipybox\/w":"[0-9a-f]{64}"/);
  assert(!/decoy/.test(question), question);
  assertMatch(text, /was not started/);
});

Deno.test("a server of a repository is asked about again when anything changes that it runs", async () => {
  await using folder = await TempFolder.create();
  const workspace = folder.path;
  const params = await repository(workspace);
  const ask = async () => {
    const { asked, text } = await start(workspace, "accept");
    assertStringIncludes(text, "called");
    return asked.length;
  };
  assertEquals(await ask(), 1);
  assertEquals(await ask(), 0);
  const program = `${workspace}/.ipybox/w/srv.ts`;
  const changes: Record<string, () => Promise<void>> = {
    "its program": () => Deno.writeTextFile(program, "\n", { append: true }),
    "what its program may import": () => Deno.writeTextFile(`${workspace}/.ipybox/w/new.ts`, ""),
    "what a link leads to": async () => {
      await Deno.mkdir(`${workspace}/.ipybox/other`);
      await Deno.rename(program, `${workspace}/.ipybox/other/srv.ts`);
      await Deno.symlink("../other/srv.ts", program);
    },
    "what is behind a link": () =>
      Deno.writeTextFile(`${workspace}/.ipybox/other/srv.ts`, "\n", { append: true }),
    "the .env": async () => {
      await Deno.copyFile(program, `${workspace}/.ipybox/w/b.ts`);
      assertEquals(await ask(), 1);
      await Deno.writeTextFile(`${workspace}/.env`, `WEATHER=${workspace}/.ipybox/w/b.ts\n`);
    },
    "its registration": () => plant(workspace, { ...params, env: { X: "y" } }),
    "its registration, which the person had removed": async () => {
      await (await ServerRegistry.open({ workspace })).unregister("raw");
      await plant(workspace, { ...params, env: { X: "y" } });
    },
  };
  for (const [name, change] of Object.entries(changes)) {
    await change();
    assertEquals(await ask(), 1, name);
    assertEquals(await ask(), 0, name);
  }
  // A person who serves others has accepted it for themselves only.
  await using server = await HttpMcp.start(["--workspace", workspace]);
  await using host = await McpHost.join(server.address, { answer: () => "allow" });
  const said = await host.execute(`${RAW}
try: print("called", raw.run_sync("count"))
except Exception as error: print(error)`);
  assertMatch(said, /No MCP server "raw" is registered/);
  assertMatch(server.stderr, /you have not registered them: raw/);
});

Deno.test("a server of a repository is asked about again when the settings of its sandbox change", async () => {
  await using folder = await TempFolder.create();
  const workspace = folder.path;
  await plant(workspace, { ...await repository(workspace), sandbox: ".ipybox/sb.json" });
  const settings = `${workspace}/.ipybox/sb.json`;
  await Deno.writeTextFile(settings, "{}");
  assertEquals((await start(workspace, "accept")).asked.length, 1);
  assertEquals((await start(workspace, "accept")).asked.length, 0);
  await Deno.writeTextFile(settings, '{"filesystem": {"allowWrite": ["~/"]}}');
  const { asked } = await start(workspace, "reject");
  assertEquals(asked.length, 1);
  assertStringIncludes(asked[0] ?? "", "allowWrite");
});

Deno.test("a registered server is asked about once another clone has brought its program", async () => {
  await using folder = await TempFolder.create();
  const workspace = folder.path;
  const params = await repository(workspace);
  const program = `${workspace}/.ipybox/w/srv.ts`;
  const registered = {
    ...params,
    args: (params.args ?? []).map((arg) => arg.startsWith("${") ? program : arg),
  };
  {
    await using runner = await ToolRunner.start({ workspace, log: silentLogger });
    await runner.registerServer("raw", registered);
  }
  assertEquals(await start(workspace, "reject"), { asked: [], text: "called" });
  const changes: Record<string, () => Promise<void>> = {
    "the whole folder": async () => {
      const [registry, code] = [`${workspace}/.ipybox/mcp.json`, await Deno.readTextFile(program)];
      const entry = await Deno.readTextFile(registry);
      await Deno.remove(`${workspace}/.ipybox`, { recursive: true });
      await Deno.mkdir(`${workspace}/.ipybox/w`, { recursive: true });
      await Deno.writeTextFile(registry, entry);
      await Deno.writeTextFile(program, `${code}\n// another clone's`);
    },
    "what the program may import": () => Deno.writeTextFile(`${workspace}/.ipybox/w/new.ts`, ""),
  };
  for (const [name, change] of Object.entries(changes)) {
    await change();
    const { asked, text } = await start(workspace, "reject");
    assertEquals(asked.length, 1, name);
    assertStringIncludes(asked[0] ?? "", "It is registered, and its files in the workspace");
    assertMatch(
      asked[0] ?? "",
      /"old_text":"\.ipybox\/w: (.{12})","new_text":"\.ipybox\/w: (?!\1)/,
    );
    assertMatch(text, /was not started: .* have changed since it was registered/);
    if (name === "the whole folder") {
      const warned: string[] = [];
      const log = { ...silentLogger, warn: (message: string) => void warned.push(message) };
      const servers = await sessionServers({ workspace, session: { log } });
      assertEquals(servers.names, []);
      assertMatch(warned.join(), /Not available in sessions: raw\. Its files .* have changed/);
    }
    assertEquals((await start(workspace, "accept")).asked.length, 1, name);
    assertEquals(await start(workspace, "reject"), { asked: [], text: "called" }, name);
  }
  await Deno.mkdir(`${workspace}/.ipybox/w/state`);
  await Deno.writeTextFile(`${workspace}/.ipybox/w/state/calls.db`, "what the server keeps");
  assertEquals(await start(workspace, "reject"), { asked: [], text: "called" });
});

Deno.test("in six sessions, a registered server is asked about once: for an editor's change", async () => {
  await using folder = await TempFolder.create();
  const workspace = folder.path;
  const raw = rawServer();
  const line = ["register", "raw", "--", raw.command, ...raw.args ?? []];
  const { code, stderr } = await ipybox(line, { cwd: workspace });
  assertEquals(code, 0, stderr);
  const questions: number[] = [];
  for (const session of Array(6).keys()) {
    if (session === 3) await plant(workspace, { ...raw, env: { EDITED: "1" } });
    const { asked, text } = await start(workspace, "accept");
    assertEquals(text, "called");
    questions.push(asked.length);
  }
  assertEquals(questions, [0, 0, 0, 1, 0, 0]);
});

Deno.test("no mode and no policy starts a server that nobody registered", async () => {
  await using folder = await TempFolder.create();
  const workspace = folder.path;
  const proof = `${workspace}/ran`;
  await Deno.mkdir(`${workspace}/.ipybox`);
  await plant(workspace, { command: "sh", args: ["-c", `id > ${proof}; cat`] });
  const policies: ApprovalSetting[] = [
    "allow",
    { tools: "allow" },
    { decide: () => ({ mode: "allow" }) },
    new PolicyRules([parsePolicy("p.json", '{"rules": [{"effect": "allow"}]}')]),
  ];
  for (const approval of policies) {
    await using runner = await ToolRunner.start({ workspace, approval, log: silentLogger });
    const error = await assertRejects(() => runner.run("raw", "count"), ToolCallError);
    assertEquals(error.type, "approval_unavailable");
    assertMatch(error.message, /has not registered it/);
    // Where a person can be asked, they are.
    const asked: string[] = [];
    using _approver = runner.channel.attach((request) => {
      asked.push(request.toolName);
      void request.reject();
    });
    await assertRejects(() => runner.run("raw", "count"), ToolCallError, "was not started");
    assertEquals(asked, ["start_mcp_server"]);
  }
  await assertRejects(() => Deno.stat(proof), Deno.errors.NotFound);
});

/** A workspace as it comes from elsewhere, whose registry names one program and starts another one. */
async function repository(workspace: string): Promise<StdioServerParams> {
  const program = `${workspace}/.ipybox/w/srv.ts`;
  await Deno.mkdir(`${workspace}/.ipybox/w`, { recursive: true });
  const { command, args = [] } = await copiedServer(program);
  await Deno.writeTextFile(`${workspace}/.env`, `WEATHER=${program}\n`);
  const decoy = "${WEATHER:-/opt/weather/decoy.ts}";
  const params = { command, args: args.map((arg) => arg === program ? decoy : arg) };
  await plant(workspace, params);
  return params;
}

async function plant(workspace: string, params: StdioServerParams): Promise<void> {
  const text = JSON.stringify({ mcpServers: { raw: params } });
  await Deno.writeTextFile(`${workspace}/.ipybox/mcp.json`, text);
}

/** Calls the server in a session, and gives what was asked about its start. */
async function start(
  workspace: string,
  answer: "accept" | "reject",
): Promise<{ asked: string[]; text: string }> {
  await using runner = await ToolRunner.start({ workspace, log: silentLogger });
  const asked: string[] = [];
  using _approver = runner.channel.attach((request) => {
    if (request.toolName !== "start_mcp_server") return void request.accept();
    asked.push(request.argumentsJson + request.description);
    if (answer === "accept") void request.accept();
    else void request.reject();
  });
  const text = await runner.run("raw", "count").then(() => "called", ({ message }) => message);
  return { asked, text };
}
