/** Attacks by code that rewrites what a server outside the sandbox would run. */
import {
  assert,
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { ConfigError, ToolCallError } from "../../src/base/errors.ts";
import { silentLogger } from "../../src/base/log.ts";
import { settledWithin } from "../../src/base/signals.ts";
import { ToolRunner } from "../../src/calls/runner.ts";
import { connectMcp } from "../../src/mcp/connect.ts";
import type { StdioServerParams } from "../../src/mcp/params.ts";
import { ServerRegistry } from "../../src/servers/registry.ts";
import { startEvidence, unaskedStart } from "../../src/servers/start_evidence.ts";
import { attack } from "../support/attacker.ts";
import { TestExecutor } from "../support/executor.ts";
import type { OwnRegisterOptions } from "../../src/executor/options.ts";
import { ipybox } from "../support/cli.ts";
import { copiedServer, rawServer } from "../support/mcp.ts";
import { McpHost } from "../support/mcp_client.ts";
import { TempFolder } from "../support/temp_folder.ts";

const log = silentLogger;

/** Calls a server, and gives what was asked about its start. */
async function call(runner: ToolRunner): Promise<{ asked: string[]; end: string }> {
  const asked: string[] = [];
  using _approver = runner.channel.attach((request) => {
    if (request.toolName !== "start_mcp_server") return void request.accept();
    asked.push(request.description ?? "");
    void request.reject();
  });
  const end = await runner.run("raw", "count").then(() => "called", ({ message }) => message);
  return { asked, end };
}

Deno.test("a server whose program code could change is named, and asked about once it has changed", async () => {
  await using folder = await TempFolder.create();
  await using outside = await TempFolder.create();
  const workspace = folder.path;
  const params = await copiedServer(`${workspace}/server.ts`);
  const line = [params.command, ...params.args ?? []];
  const registered = await ipybox(["register", "raw", "--", ...line], { cwd: workspace });
  assertEquals(registered.code, 0, registered.stderr);
  assertMatch(
    registered.stderr,
    /Code that runs here can change server\.ts, and raw runs with your/,
  );
  {
    await using runner = await ToolRunner.start({ workspace, log });
    assertEquals(await call(runner), { asked: [], end: "called" });
  }
  const ran = `${outside.path}/ran`;
  const evil = `Deno.writeTextFileSync(${JSON.stringify(ran)}, "");`;
  await Deno.writeTextFile(`${workspace}/server.ts`, evil);
  await using runner = await ToolRunner.start({ workspace, log });
  runner.pool.startAhead(runner.registry.names); // none that is asked about
  const { asked, end } = await call(runner);
  assertEquals(asked.length, 1);
  assertStringIncludes(asked[0] ?? "", "Code that runs here can change server.ts");
  assertMatch(end, /was not started/);
  await assertRejects(() => Deno.lstat(ran), Deno.errors.NotFound);
});

Deno.test("a server whose program changes while the person is asked is asked about again", async () => {
  await using folder = await TempFolder.create();
  await using outside = await TempFolder.create();
  const workspace = folder.path;
  const raw = await copiedServer(`${workspace}/server.ts`);
  const [program, ran] = [`${workspace}/server.ts`, `${outside.path}/ran`];
  await using runner = await ToolRunner.start({ workspace, log });
  await runner.registerServer("raw", raw);
  await runner.reset();
  await Deno.writeTextFile(program, "// what the person reads");
  const asked: string[] = [];
  using _approver = runner.channel.attach(async (request) => {
    asked.push(request.toolName);
    if (asked.length > 1) return void request.reject();
    await Deno.writeTextFile(program, `Deno.writeTextFileSync(${JSON.stringify(ran)}, "");`);
    void request.accept();
  });
  await assertRejects(() => runner.run("raw", "count"), ToolCallError, "was not started");
  assertEquals(asked, ["start_mcp_server", "start_mcp_server"]);
  await assertRejects(() => Deno.lstat(ran), Deno.errors.NotFound);
});

Deno.test("a server's file that code exchanges with a pipe is not waited for", async () => {
  await using folder = await TempFolder.create();
  const workspace = folder.path;
  const raw = await copiedServer(`${workspace}/server.ts`);
  const exchange = `
import ctypes, os, sys
os.chdir(sys.argv[1])
os.mkfifo("pipe")
print("ready", flush=True)
while True:
    ctypes.CDLL(None).renameat2(-100, b"server.ts", -100, b"pipe", 2)
`;
  await using _attacker = await attack(["-c", exchange, workspace]);
  for (let round = 0; round < 150; round++) {
    const evidence = startEvidence("raw", raw, { workspace, log }).catch(() => {});
    assert(await settledWithin(evidence, 20_000), "it waits");
  }
});

Deno.test("a server of the application is asked about once code has changed its program", async () => {
  await using folder = await TempFolder.create();
  const workspace = folder.path;
  const raw = await copiedServer(`${workspace}/server.ts`);
  await using runner = await ToolRunner.start({ workspace, servers: { raw }, log });
  assertEquals(await call(runner), { asked: [], end: "called" });
  await Deno.writeTextFile(`${workspace}/server.ts`, "\n", { append: true });
  await runner.reset();
  assertEquals((await call(runner)).asked.length, 1);
});

Deno.test("a registration is bound to the files that code could run by it, and to no data", async () => {
  await using folder = await TempFolder.create();
  await using other = await TempFolder.create();
  await using outside = await TempFolder.create();
  const workspace = folder.path;
  await Deno.mkdir(`${other.path}/.ipybox`); // another workspace
  await Deno.writeTextFile(`${other.path}/server.py`, "");
  await Deno.writeTextFile(`${outside.path}/server.py`, "");
  await Deno.symlink(`${outside.path}/server.py`, `${workspace}/link.py`);
  for (const name of ["server.py", "program", "notes.md", "data.db"]) {
    await Deno.writeTextFile(`${workspace}/${name}`, "");
  }
  const command = "python3";
  const change = (path: string) => () => Deno.writeTextFile(path, "changed");
  const inWorkspace = (name: string) => change(`${workspace}/${name}`);
  const cases: Record<string, [StdioServerParams, () => Promise<void>, boolean]> = {
    script: [{ command, args: [`${workspace}/server.py`] }, inWorkspace("server.py"), true],
    "no suffix": [{ command, args: ["-u", "program"], cwd: "." }, inWorkspace("program"), true],
    "not there yet": [{ command, args: [`${workspace}/later`] }, inWorkspace("later"), true],
    option: [{ command: "x", args: [`--recipe=${workspace}/r.conf`] }, inWorkspace("r.conf"), true],
    variable: [{ command, env: { LD_PRELOAD: `${workspace}/x.so` } }, inWorkspace("x.so"), true],
    "in a shell's text": [
      { command: "sh", args: ["-c", `exec ${workspace}/run.sh`] },
      inWorkspace("run.sh"),
      true,
    ],
    link: [{ command, args: [`${workspace}/link.py`] }, async () => {
      await Deno.remove(`${workspace}/link.py`);
      await Deno.symlink("/dev/stdin", `${workspace}/link.py`);
    }, true],
    "executable data": [{ command, args: [`${workspace}/notes.md`] }, async () => {
      await Deno.chmod(`${workspace}/notes.md`, 0o755);
    }, true],
    "of another workspace": [
      { command, args: [`${other.path}/server.py`] },
      change(`${other.path}/server.py`),
      true,
    ],
    "out of reach": [
      { command, args: [`${outside.path}/server.py`] },
      change(`${outside.path}/server.py`),
      false,
    ],
    "data that it writes": [
      { command: "x", args: [`${workspace}/data.db`] },
      inWorkspace("data.db"),
      false,
    ],
    "a folder of data": [
      { command: "x", args: [`${workspace}`, `--root=${workspace}`] },
      inWorkspace("new.py"),
      false,
    ],
  };
  const registry = await ServerRegistry.open({ workspace });
  for (const [name, [params, changeIt, isAsked]] of Object.entries(cases)) {
    const run = await startEvidence("x", params, { workspace, isOwn: true, log });
    await registry.register("x", params, run);
    const unasked = async () =>
      await unaskedStart(registry, ["x", params], { workspace, log }) !== undefined;
    assertEquals(await unasked(), true, name);
    await changeIt();
    assertEquals(await unasked(), !isAsked, name);
  }
});

Deno.test("a server that was accepted with sandbox settings of the user's own is not asked about again", async () => {
  await using folder = await TempFolder.create();
  await using outside = await TempFolder.create();
  const workspace = folder.path;
  await Deno.writeTextFile(`${outside.path}/settings.json`, "{}");
  await Deno.writeTextFile(`${workspace}/server.py`, "");
  const args = [`${workspace}/server.py`];
  const x = { command: "python3", args, sandbox: `${outside.path}/settings.json` };
  await Deno.mkdir(`${workspace}/.ipybox`);
  await Deno.writeTextFile(`${workspace}/.ipybox/mcp.json`, JSON.stringify({ mcpServers: { x } }));
  const { code, stderr } = await ipybox(["trust", "--yes"], { cwd: workspace });
  assertEquals(code, 0, stderr);
  assertStringIncludes(stderr, `${outside.path}/settings.json`);
  assertStringIncludes((await ipybox(["trust"], { cwd: workspace })).stderr, "Nothing to accept");
});

Deno.test("the program of a server comes from no .env of the workspace, which a repository may change", async () => {
  await using folder = await TempFolder.create();
  const workspace = folder.path;
  const { command, args = [] } = rawServer();
  await Deno.writeTextFile(`${workspace}/.env`, `RUNNER=${command}\nFIRST=${args[0]}\n`);
  const rest = args.slice(1);
  const named = { command: "${RUNNER}", args };
  await assertRejects(
    () => connectMcp("x", named, { workspace, log }),
    ConfigError,
    "the workspace's .env must not name its program. Set ${RUNNER} in your environment",
  );
  const others: StdioServerParams[] = [
    { command, args: ["${FIRST}", ...rest] },
    { command: `\${UNSET_RUNNER:-${command}}`, args },
  ];
  for (const params of others) {
    await using connection = await connectMcp("x", params, { workspace, log });
    assertEquals((await connection.listTools()).length > 0, true);
  }
});

Deno.test("a server's sandbox gets the settings that its start was judged by", async () => {
  await using folder = await TempFolder.create();
  const path = `${folder.path}/settings.json`;
  await Deno.writeTextFile(path, "replaced meanwhile");
  const server = { ...rawServer(), sandbox: path };
  const options = { workspace: folder.path, log };
  await using _connection = await connectMcp("raw", server, {
    ...{ ...options, settings: { path, text: '{"filesystem": {"allowRead": ["/usr"]}}' } },
  });
  await assertRejects(() => connectMcp("raw", server, options), ConfigError, "Invalid JSON");
});

Deno.test("a model's server gets the sandbox settings that the user was shown, or is not registered", async () => {
  await using folder = await TempFolder.create();
  const path = `${folder.path}/settings.json`;
  const settings = (name: string) => `{"filesystem": {"allowRead": ["/usr/${name}"]}}`;
  await Deno.writeTextFile(path, settings("bin"));
  const server = { ...rawServer(), sandbox: "settings.json" };
  const questions: string[] = [];
  await using host = await McpHost.start({
    args: ["--workspace", folder.path, "--no-sandbox"],
    answer: async (question) => {
      questions.push(question);
      await Deno.writeTextFile(path, settings("lib"));
      return "allow";
    },
  });
  const params = { server_name: "raw", server_params: server };
  const { isError = false, text } = await host.call("register_mcp_server", params);
  assertEquals(isError, false, text);
  for (const [at, name] of ["bin", "lib"].entries()) { // it asks again: these are others
    assertStringIncludes(questions[at] ?? "", settings(name));
  }

  await using session = await TestExecutor.start({ workspace: folder.path });
  const { executor } = session;
  const options: OwnRegisterOptions = { seen: { settings: settings("bin") } };
  const { message } = await assertRejects(
    () => executor.registerServer("other", server, options),
    ConfigError,
  );
  assertStringIncludes(message, "its sandbox settings are not those that were shown");
});
