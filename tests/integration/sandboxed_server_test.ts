/** MCP servers in a sandbox of their own: what they can reach, and that nothing of them is left. */
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { ConfigError, McpConnectionError } from "../../src/base/errors.ts";
import { parseExact, sealObject } from "../../src/json/exact.ts";
import { connectMcp } from "../../src/mcp/connect.ts";
import type { McpConnection } from "../../src/mcp/connection.ts";
import type { StdioServerParams } from "../../src/mcp/params.ts";
import { ToolRunner } from "../../src/calls/runner.ts";
import { ipybox } from "../support/cli.ts";
import { TestExecutor } from "../support/executor.ts";
import { until } from "../support/wait.ts";
import { processesWith, untilNoneWith } from "../support/processes.ts";
import { testPython } from "../support/python.ts";
import { testIf } from "../support/skip.ts";
import { stepsOf } from "../support/steps.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { variables } from "../support/variables.ts";

const script = new URL("../fixtures/mcp/prober.py", import.meta.url).pathname;

/** The server that tries things. */
function prober(...args: string[]): StdioServerParams {
  return { command: testPython(), args: [script, ...args] };
}

/** Has the server evaluate Python expressions, and gives what became of each. */
async function probe(
  connection: McpConnection,
  probes: Record<string, string>,
): Promise<Record<string, string>> {
  const args = sealObject(parseExact(JSON.stringify({ probes })));
  const { content } = await connection.callTool("attempt", args);
  return JSON.parse(String(content[0]?.text));
}

async function makeWorkspace(stack: AsyncDisposableStack): Promise<string> {
  const { path } = stack.use(await TempFolder.create());
  await Deno.mkdir(`${path}/.ipybox`);
  await Deno.mkdir(`${path}/mcptools`);
  await Deno.writeTextFile(`${path}/.ipybox/mcp.json`, "{}");
  await Deno.writeTextFile(`${path}/.env`, "SECRET=1");
  await Deno.writeTextFile(`${path}/README.md`, "of the workspace");
  return path;
}

const REFUSED =
  /^! (PermissionError|FileNotFoundError|OSError|ConnectionRefusedError|TimeoutError)$/;

/** Probes of which each must fail. */
function attacks(workspace: string, home: string, port: number): Record<string, string> {
  return {
    "read a file of the user": `open("${home}/id_rsa").read()`,
    "list the user's folder": `os.listdir("${home}")`,
    "read the system's secrets": `open("/etc/shadow").read()`,
    "read the host's state": `open("${workspace}/.ipybox/mcp.json").read()`,
    "read the workspace's secrets": `open("${workspace}/.env").read()`,
    "write the system": `write("/usr/new")`,
    "write generated code": `write("${workspace}/mcptools/__init__.py")`,
    "reach a port of the host": `socket.create_connection(("127.0.0.1", ${port}), 2)`,
    "reach the world": `socket.create_connection(("1.1.1.1", 443), 2)`,
    "reach a socket of the host": `socket.socket(socket.AF_UNIX).connect("${workspace}/socket")`,
    "see the host's processes": `open("/proc/${Deno.pid}/cmdline").read().index("deno") and 1`,
  };
}

Deno.test("a sandboxed server reaches its own folder and what it is told, and nothing else", async () => {
  await using stack = new AsyncDisposableStack();
  const workspace = await makeWorkspace(stack);
  const { path: home } = stack.use(await TempFolder.create());
  await Deno.writeTextFile(`${home}/id_rsa`, "of the user");
  using canary = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  using _socket = Deno.listen({ transport: "unix", path: `${workspace}/socket` });
  const params = { ...prober("${workspaceFolder}"), sandbox: true, env: { GIVEN: "a b" } };
  const connection = stack.use(await connectMcp("prober", params, { workspace }));

  const outcomes = await probe(connection, attacks(workspace, home, canary.addr.port));
  for (const [name, result] of Object.entries(outcomes)) {
    if (name.startsWith("see")) assertMatch(result, /^!/, name);
    else assertMatch(result, REFUSED, `${name}: ${result}`);
  }
  const allowed = await probe(connection, {
    "read what it is told": `open("${workspace}/README.md").read()`,
    "write what it is told": `write("${workspace}/new")`,
    "write its folder": `write("mine")`,
    "its folder": "os.getcwd()",
    "temporary files": `write(os.environ["TMPDIR"] + "/x")`,
    home: `os.environ["HOME"]`,
    "write its home":
      `[os.makedirs(os.environ["HOME"] + "/.cache/x"), write(os.environ["HOME"] + "/.cache/x/y")][1]`,
    "its variable": `os.environ["GIVEN"]`,
    "the host's names": `[name for name in os.environ if "DENO" in name]`,
  });
  assertEquals(allowed["read what it is told"], "of the workspace");
  assertMatch(allowed["write what it is told"] ?? "", REFUSED);
  assertEquals([allowed["write its folder"], allowed["temporary files"]], ["written", "written"]);
  assertEquals(allowed["write its home"], "written");
  assertEquals([allowed.home, allowed["its variable"]], [Deno.env.get("HOME"), "a b"]);
  assertEquals(allowed["the host's names"], "[]");
  const folder = allowed["its folder"] ?? "";
  assertMatch(folder, /\/run\/[^/]+\/empty$/);
  await connection[Symbol.asyncDispose]();
  await assertRejects(() => Deno.stat(folder), Deno.errors.NotFound);
});

Deno.test("a settings file opens what it names, but never the host's own state", async () => {
  await using stack = new AsyncDisposableStack();
  const workspace = await makeWorkspace(stack);
  const { path: home } = stack.use(await TempFolder.create());
  await Deno.writeTextFile(`${home}/id_rsa`, "of the user");
  using canary = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const settings = { filesystem: { allowRead: [`${home}/id_rsa`], allowWrite: ["."] } };
  await Deno.writeTextFile(`${workspace}/.ipybox/server.json`, JSON.stringify(settings));
  const params = { ...prober(), sandbox: ".ipybox/server.json" };
  await using connection = await connectMcp("prober", params, { workspace });

  const outcomes = await probe(connection, attacks(workspace, home, canary.addr.port));
  assertEquals(outcomes["read a file of the user"], "of the user");
  for (const name of ["read the host's state", "write generated code"]) {
    assertMatch(outcomes[name] ?? "", REFUSED, name);
  }
  // It may see empty folders there, which are gone with it.
  const [state, outside] = [`${workspace}/.ipybox/mcp.json`, `${home}/new`];
  await probe(connection, { state: `write("${state}")`, outside: `write("${outside}")` });
  assertEquals(await Deno.readTextFile(state), "{}");
  await assertRejects(() => Deno.stat(outside), Deno.errors.NotFound);
  for (const name of ["reach a port of the host", "reach the world"]) {
    assertMatch(outcomes[name] ?? "", REFUSED, name);
  }
  assertEquals(await probe(connection, { w: `write("${workspace}/new")` }), { w: "written" });
  assertEquals(await Deno.readTextFile(`${workspace}/new`), "changed");
});

Deno.test("srt as a server's command means what it means to srt, from the workspace", async () => {
  await using stack = new AsyncDisposableStack();
  const workspace = await makeWorkspace(stack);
  const { path: other } = stack.use(await TempFolder.create());
  await Deno.writeTextFile(`${other}/a.txt`, "elsewhere");
  await Deno.writeTextFile(`${workspace}/os.py`, "raise SystemExit('planted')");
  await Deno.mkdir(`${workspace}/examples`);
  const settings = {
    enableWeakerNestedSandbox: false,
    filesystem: { denyRead: [".env"], allowWrite: [".", "~/.npm"], denyWrite: [] },
    network: { allowedDomains: [], deniedDomains: [], allowLocalBinding: true },
  };
  await Deno.writeTextFile(`${workspace}/examples/mcp.json`, JSON.stringify(settings));
  const { command, args = [] } = prober(".");
  const params = { command: "srt", args: ["--settings", "examples/mcp.json", command, ...args] };
  await using connection = await connectMcp("prober", params, { workspace });

  const outcomes = await probe(connection, {
    here: "os.getcwd()",
    files: "sorted(os.listdir())",
    elsewhere: `open("${other}/a.txt").read()`,
    secret: `open(".env").read()`,
    state: `open(".ipybox/mcp.json").read()`,
    "write elsewhere": `write("${other}/a.txt")`,
    write: `write("new")`,
    world: `socket.create_connection(("1.1.1.1", 443), 2)`,
  });
  assertEquals(outcomes.here, workspace);
  assertMatch(outcomes.files ?? "", /README\.md/);
  assert(!outcomes.files?.includes(".bashrc"), "srt puts nothing into the workspace");
  assertEquals([outcomes.elsewhere, outcomes.write], ["elsewhere", "written"]);
  for (const name of ["secret", "state", "write elsewhere", "world"]) {
    assertMatch(outcomes[name] ?? "", REFUSED, name);
  }
});

Deno.test("srt's setting for Unix sockets opens those of the host", async () => {
  await using stack = new AsyncDisposableStack();
  const workspace = await makeWorkspace(stack);
  const { path: outside } = stack.use(await TempFolder.create());
  const path = `${outside}/agent`;
  using _listener = Deno.listen({ transport: "unix", path });
  using _agent = variables({ SSH_AUTH_SOCK: path });
  const reach = `socket.socket(socket.AF_UNIX).connect("${path}")`;
  for (const [allowed, outcome] of [[true, "None"], [false, "! PermissionError"]] as const) {
    const settings = { network: { allowAllUnixSockets: allowed } };
    await Deno.writeTextFile(`${workspace}/srt.json`, JSON.stringify(settings));
    const { command, args = [] } = prober();
    const params = { command: "srt", args: ["--settings", "srt.json", command, ...args] };
    await using connection = await connectMcp("prober", params, { workspace });
    assertEquals(await probe(connection, { reach }), { reach: outcome });
  }
});

Deno.test("nothing of a sandboxed server is left after its end", async () => {
  const mark = `ipybox-test-${crypto.randomUUID()}`;
  {
    await using connection = await connectMcp("prober", { ...prober(), sandbox: true });
    const script = `trap '' TERM HUP; : ${mark}; /bin/sleep 600; :`;
    const daemon = `subprocess.Popen(["sh", "-c", ${
      JSON.stringify(script)
    }], start_new_session=True,
      stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env={}).pid`;
    assertMatch((await probe(connection, { daemon })).daemon ?? "", /^\d+$/);
    await until(async () => (await processesWith(mark)).length === 1);
  }
  await untilNoneWith(mark);
});

Deno.test("a server is sandboxed however it is registered", async (t) => {
  await using test = await TestExecutor.start();
  const { executor, workspace } = test;
  const step = stepsOf(t);
  const probes = { etc: `open("/etc/shadow").read()`, here: "os.getcwd()" };
  const isSandboxed = (outcomes: Record<string, string>) => {
    assertMatch(outcomes.etc ?? "", REFUSED);
    assertMatch(outcomes.here ?? "", /\/run\/[^/]+\/empty$/);
  };
  const call = `
from mcptools.one import attempt
print(attempt.run(probes=${JSON.stringify(probes)}))`;

  await step("with an executor", async () => {
    await executor.registerServer("one", { ...prober(), sandbox: true });
    isSandboxed(JSON.parse((await executor.execute(call)).text ?? ""));
  });

  await step(
    "at the command line, with settings or without, and by a tool runner of its own",
    async () => {
      const { command, args = [] } = prober();
      const settings = `${workspace}/.ipybox/settings.json`;
      await Deno.writeTextFile(settings, "{}");
      const options = [["two", "--sandbox"], ["three", "--sandbox-config", settings]];
      for (const words of options) {
        const line = ["register", ...words, "--workspace", workspace, "--", command, ...args];
        assertEquals((await ipybox(line)).stderr, "");
      }
      const registry = JSON.parse(await Deno.readTextFile(`${workspace}/.ipybox/mcp.json`));
      const { two, three } = registry.mcpServers;
      assertEquals([two.sandbox, three.sandbox], [true, ".ipybox/settings.json"]);

      await using runner = await ToolRunner.start({ workspace, approval: "allow" });
      for (const server of ["two", "three"]) {
        const { content } = await runner.run(server, "attempt", { probes });
        isSandboxed(JSON.parse(String(content[0]?.text)));
      }
    },
  );
});

testIf(Deno.build.os === "linux", "other systems bring their sandbox along", {
  name: "without the sandbox's programs a server that wants it is not started",
  fn: async () => {
    await using workspace = await TempFolder.create();
    const register = ["register", "x", "--sandbox", "--workspace", workspace.path];
    const line = [...register, "--", "/bin/sh", "-c", "touch started"];
    const { code, stderr } = await ipybox(line, { env: { PATH: workspace.path } });
    assertEquals(code, 3);
    assertMatch(
      stderr,
      /python3, which makes the sandbox, is not on the PATH[^]*To fix it: Install Python/,
    );
    await assertRejects(() => Deno.stat(`${workspace.path}/started`), Deno.errors.NotFound);
  },
});

Deno.test("a sandbox that cannot be had is said, and nothing is started", async () => {
  await using folder = await TempFolder.create();
  const workspace = folder.path;
  const wrong = async (params: StdioServerParams, message: RegExp) => {
    const options = { workspace, connectTimeoutMs: 20_000 };
    const error = await assertRejects(() => connectMcp("x", params, options), Error);
    assertMatch(error.message, message);
    return error;
  };
  const missing = await wrong({ ...prober(), sandbox: "no.json" }, /no\.json do not exist/);
  assert(missing instanceof ConfigError);
  await Deno.writeTextFile(`${workspace}/open.json`, '{"filesystem":{"disabled":true}}');
  await wrong({ ...prober(), sandbox: "open.json" }, /would let sandboxed code escape/);
  await wrong({ command: "srt", args: ["-c", "ls"] }, /"x": ipybox does not support -c of srt/);
  await wrong({ command: "srt", args: ["--settings", "open.json"] }, /needs a command to run/);
  const nowhere = { command: "no-such-command", sandbox: true };
  const absent = await wrong(nowhere, /"x": no-such-command is not on the PATH/);
  assert(absent instanceof McpConnectionError);
});
