/**
 * Attacks on what the host trusts in a workspace: code replaces a link on the way to it, writes the
 * state of another workspace, or finds a registry obeyed that nobody registered.
 */
import {
  assert,
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import {
  ConfigError,
  EnvironmentNotReadyError,
  McpConnectionError,
} from "../../src/base/errors.ts";
import { readSandboxConfig } from "../../src/sandbox/config.ts";
import { CodeExecutor } from "../../src/executor/code_executor.ts";
import { KernelGateway } from "../../src/kernel/gateway.ts";
import { silentLogger } from "../../src/base/log.ts";
import { readDotenv } from "../../src/mcp/env.ts";
import { connectMcp } from "../../src/mcp/connect.ts";
import type { StdioServerParams } from "../../src/mcp/params.ts";
import { findPython } from "../../src/python/environment.ts";
import { PackageFolder } from "../../src/python/packages.ts";
import { parseRequirement } from "../../src/python/requirement.ts";
import { ServerRegistry } from "../../src/servers/registry.ts";
import { swapFolder } from "../support/attacker.ts";
import { ipybox } from "../support/cli.ts";
import { follow, TestExecutor } from "../support/executor.ts";
import { HttpMcp } from "../support/http_mcp.ts";
import { McpHost } from "../support/mcp_client.ts";
import { rawServer } from "../support/mcp.ts";
import { testPython } from "../support/python.ts";
import { stepsOf } from "../support/steps.ts";
import { writeAcceptedPolicy } from "../support/policy.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { attack, DENIED, TOOLS } from "./siege.ts";

const log = silentLogger;

Deno.test("an interpreter that a link in the workspace leads to is not started", async () => {
  await using folder = await TempFolder.create();
  await using outside = await TempFolder.create();
  const workspace = folder.path;
  const ran = `${outside.path}/ran`;
  await Deno.mkdir(`${outside.path}/venv/bin`, { recursive: true });
  await planted(`${outside.path}/venv/bin/python`, ran);
  await Deno.symlink(`${outside.path}/venv`, `${workspace}/linked`);
  await Deno.mkdir(`${workspace}/tools/bin`, { recursive: true });
  await planted(`${workspace}/tools/bin/python`, ran);
  await Deno.symlink(workspace, `${outside.path}/detour`);

  for (
    const python of [
      `${workspace}/linked/bin/python`,
      `${outside.path}/detour/linked/bin/python`,
    ]
  ) {
    const reason = `code of the workspace ${workspace} could replace ${python}`;
    const refused = async (start: () => Promise<unknown>) =>
      assertStringIncludes((await assertRejects(start, ConfigError)).message, reason);
    await refused(() => findPython({ python, workspace }));
    await refused(() => CodeExecutor.start({ python, workspace, log }));
    await refused(() => KernelGateway.start({ python, workspace }));
  }
  // Without a link, it is tried in the sandbox, where it is no Python.
  const python = `${workspace}/tools/bin/python`;
  for (
    const start of [
      () => findPython({ python, workspace }),
      () => CodeExecutor.start({ python, workspace, log }),
      () => KernelGateway.start({ python, workspace }),
    ]
  ) await assertRejects(start, EnvironmentNotReadyError, python);
  // A command that knows no workspace sees it by what is there.
  await Deno.mkdir(`${workspace}/.ipybox`, { recursive: true });
  const { stderr } = await ipybox(["doctor", "--python", `${workspace}/linked/bin/python`]);
  assertStringIncludes(stderr, `code of the workspace ${workspace} could replace`);
  await assertRejects(() => Deno.lstat(ran), Deno.errors.NotFound);
});

Deno.test("settings of a sandbox that a link in the workspace leads to are not read", async () => {
  await using folder = await TempFolder.create();
  await using outside = await TempFolder.create();
  const workspace = folder.path;
  const settings = '{"network": {"allowedDomains": ["example.com"]}}';
  await Deno.writeTextFile(`${outside.path}/sandbox.json`, settings);
  await Deno.symlink(`${outside.path}/sandbox.json`, `${workspace}/file.json`);
  await Deno.symlink(outside.path, `${workspace}/conf`);
  for (const [config, link] of [["file.json", "file.json"], ["conf/sandbox.json", "conf"]]) {
    const options = { workspace, sandbox: { config: `${workspace}/${config}` }, log };
    const reason = `${workspace}/${link} is a symbolic link in the workspace`;
    await assertRejects(
      () => CodeExecutor.start({ ...options, python: testPython() }),
      ConfigError,
      reason,
    );
    const packages = await PackageFolder.open(workspace, await findPython(), {
      ...options,
      cacheDir: outside.path,
    });
    await assertRejects(() => packages.install([parseRequirement("x")]), ConfigError, reason);
  }
  // Those in the folder that no code reaches may be kept elsewhere.
  await Deno.mkdir(`${workspace}/.ipybox`, { recursive: true });
  await Deno.symlink(`${outside.path}/sandbox.json`, `${workspace}/.ipybox/sandbox.json`);
  const config = `${workspace}/.ipybox/sandbox.json`;
  const { network } = await readSandboxConfig(config, { workspace });
  assertEquals(network?.allowedDomains, ["example.com"]);
});

Deno.test("nothing that code of another workspace could change is run or obeyed", async () => {
  await using folder = await TempFolder.create();
  await using other = await TempFolder.create();
  await using outside = await TempFolder.create();
  const workspace = folder.path;
  const ran = `${outside.path}/ran`;
  await Deno.mkdir(`${other.path}/.ipybox`);
  await Deno.mkdir(`${outside.path}/venv/bin`, { recursive: true });
  await planted(`${outside.path}/venv/bin/python`, ran);
  await Deno.symlink(`${outside.path}/venv`, `${other.path}/linked`);
  await Deno.symlink(`${other.path}/linked`, `${outside.path}/detour`);
  await assertRejects(
    () => findPython({ python: `${outside.path}/detour/bin/python`, workspace }),
    ConfigError,
    `code of the workspace ${other.path} could replace ${outside.path}/detour/bin/python`,
  );
  await assertRejects(() => Deno.lstat(ran), Deno.errors.NotFound);

  await Deno.writeTextFile(`${other.path}/policy.json`, '{"rules": [{"effect": "allow"}]}');
  await Deno.mkdir(`${outside.path}/ipybox`);
  await Deno.symlink(`${other.path}/policy.json`, `${outside.path}/ipybox/policy.json`);
  const { code, stderr } = await ipybox(["policy", "explain", "s.t", "{}"], {
    cwd: workspace,
    env: { XDG_CONFIG_HOME: outside.path },
  });
  assert(code !== 0);
  assertStringIncludes(stderr, `is in the workspace ${other.path}`);
});

Deno.test("named settings that code of another workspace changes count once they were accepted there", async () => {
  await using folder = await TempFolder.create();
  await using other = await TempFolder.create();
  await using fresh = await TempFolder.create();
  await using outside = await TempFolder.create();
  await Deno.mkdir(`${other.path}/.ipybox`);
  const configs = [
    `${other.path}/sandbox.json`,
    `${other.path}/.ipybox/sandbox.json`,
    `${outside.path}/sandbox.json`,
  ];
  await Deno.symlink(`${other.path}/linked.json`, `${outside.path}/sandbox.json`);
  for (const config of configs) {
    const domains = async (workspace: string) =>
      (await readSandboxConfig(config, { workspace })).network?.allowedDomains;
    const write = (...allowedDomains: string[]) =>
      Deno.writeTextFile(config, JSON.stringify({ network: { allowedDomains } }));
    await write("example.com");
    assertEquals(await domains(folder.path), ["example.com"]);
    await write("evil.example");
    assertEquals(await domains(folder.path), ["example.com"]);
    assertEquals(await domains(fresh.path), ["example.com"]); // of a workspace that has never named it
    await Deno.mkdir(`${other.path}/sub/.ipybox`, { recursive: true }); // code can make one
    assertEquals(await domains(`${other.path}/sub`), ["example.com"]);
    assertEquals((await ipybox(["trust", "--yes"], { cwd: other.path })).code, 0);
    assertEquals(await domains(folder.path), ["evil.example"]);
  }
});

Deno.test("a server is given nothing that a link in the workspace leads to", async () => {
  await using folder = await TempFolder.create();
  await using outside = await TempFolder.create();
  const workspace = folder.path;
  const ran = `${outside.path}/ran`;
  await Deno.mkdir(`${outside.path}/bin`);
  await planted(`${outside.path}/bin/program`, ran);
  await planted(`${workspace}/program`, ran);
  await Deno.writeTextFile(`${outside.path}/s.json`, "{}");
  await Deno.symlink(outside.path, `${workspace}/data`);
  const server = rawServer();
  const attacks: Record<string, StdioServerParams> = {
    program: { command: `${workspace}/data/bin/program` },
    "program of code": { command: `${workspace}/program` },
    folder: { ...server, cwd: "data" },
    "folder below": { ...server, cwd: `${workspace}/data/bin` },
    settings: { ...server, sandbox: "data/s.json" },
    argument: { command: "/bin/cat", args: [`${workspace}/data`], sandbox: true },
  };
  for (const [name, params] of Object.entries(attacks)) {
    const connect = () => connectMcp("x", params, { workspace, log });
    const error = await assertRejects(connect, Error, undefined, name);
    assert(
      error instanceof ConfigError || error instanceof McpConnectionError,
      `${name}: ${error}`,
    );
    assertMatch(error.message, /is a symbolic link in the workspace|could replace/, name);
  }
  await assertRejects(() => Deno.lstat(ran), Deno.errors.NotFound);
});

Deno.test("code that swaps a server's folder for a link does not choose where it starts", async () => {
  await using folder = await TempFolder.create();
  await using outside = await TempFolder.create();
  const workspace = folder.path;
  await Deno.mkdir(`${workspace}/data/below`, { recursive: true });
  await Deno.mkdir(`${outside.path}/elsewhere/below`, { recursive: true });
  const seen = `${outside.path}/seen`;
  const server = `${outside.path}/server.py`;
  await Deno.writeTextFile(server, `import os; open("${seen}", "a").write(os.getcwd() + "\\n")`);
  const params = { command: "/usr/bin/python3", args: ["-I", server] };
  await connectMcp("x", { ...params, cwd: "data" }, { workspace, log }).catch(() => {}); // it ends
  assertEquals(await Deno.readTextFile(seen), `${workspace}/data\n`);
  await using _swapper = await swapFolder(`${workspace}/data`, `${outside.path}/elsewhere`);
  const end = Date.now() + 60_000;
  const places: string[] = [];
  let [stopped, isOutside] = [0, false];
  for (let attempt = 0; (attempt < 30 || stopped < 3) && !isOutside; attempt++) {
    assert(Date.now() < end, `it was stopped ${stopped} times in ${attempt} attempts`);
    const cwd = attempt % 2 === 0 ? "data" : "data/below";
    await connectMcp("x", { ...params, cwd }, { workspace, log }).catch((error) => {
      if (String(error).includes("was replaced by a link")) stopped++;
    });
    const text = await Deno.readTextFile(seen).catch(() => ""); // it never started
    places.splice(0, Infinity, ...text.split("\n").slice(0, -1));
    isOutside = places.some((place) => !place.startsWith(`${workspace}/`));
  }
  assert(!isOutside, places.join("\n"));
});

Deno.test("code reaches nothing of the workspaces in its own and of sessions over HTTP", async (t) => {
  const step = stepsOf(t);
  await using folder = await TempFolder.create();
  await using outside = await TempFolder.create();
  const workspace = folder.path;
  const project = `${folder.path}/a/proj`;
  await Deno.mkdir(project, { recursive: true });
  const registry = await ServerRegistry.open({ workspace: project });
  await registry.register("raw", { ...rawServer(), env: { KEY: "literal secret" } });
  const before = await Deno.readTextFile(`${project}/.ipybox/mcp.json`);
  const inner = `${folder.path}/inner`;
  await Deno.mkdir(inner);
  await using server = await HttpMcp.start(["--workspace", workspace]);
  await using host = await McpHost.join(server.address);
  await host.execute("open('secret-of-a-tenant', 'w').write('x')");
  await Deno.writeTextFile(`${outside.path}/s.json`, "{}");
  await Deno.symlink(outside.path, `${workspace}/conf`);
  const servers = { raw: { ...rawServer(), sandbox: "conf/s.json" } };
  await using outer = await TestExecutor.start({ workspace, servers });
  const { executor } = outer;

  await step("it sees no file of a session", async () => {
    const { text } = await executor.execute(`
import os
seen = [os.path.join(folder, name) for folder, dirs, files in os.walk(".", onerror=lambda e: None) for name in dirs + files]
print([path for path in seen if "session" in path or "tenant" in path or "mcp.json" in path])
`);
    assertEquals(text, "[]");
  });

  await step("it sees and changes nothing of a workspace in its own", async () => {
    const results = await attack(
      executor,
      `${TOOLS}
attempt("read", lambda: open("a/proj/.ipybox/mcp.json").read())
attempt("list", lambda: os.listdir("a/proj/.ipybox")[0])
attempt("write", lambda: write("a/proj/.ipybox/mcp.json"))
attempt("policy", lambda: write("a/proj/.ipybox/policy.json"))
attempt("rename", lambda: os.rename("a/proj/.ipybox", "mine"))
attempt("parent", lambda: os.rename("a", "b"))
attempt("remove", lambda: shutil.rmtree("a/proj/.ipybox"))`,
    );
    const { list, write, policy, ...others } = results;
    // It may have an empty folder in its place, which is nobody else's.
    assert(!list?.includes("mcp.json"), list);
    for (const outcome of [write, policy]) assertMatch(outcome ?? "", /^'?7'?$|Error$/);
    for (const [name, outcome] of Object.entries(others)) assertMatch(outcome, DENIED, name);
    const state = await Array.fromAsync(Deno.readDir(`${project}/.ipybox`), ({ name }) => name);
    assertEquals(state.sort(), ["mcp.json", "mcp.lock"]);
    assertEquals(await Deno.readTextFile(`${project}/.ipybox/mcp.json`), before);
  });

  await step("it chooses no server's sandbox by replacing the folder of its settings", async () => {
    const { text } = await executor.execute(`
import json, os
os.unlink("conf"); os.mkdir("conf")
with open("conf/s.json", "w") as file:
    json.dump({"filesystem": {"allowRead": ["/"]}}, file)
from ipybox_runtime import ToolRunner
try:
    print("called", ToolRunner("raw").run_sync("count"))
except Exception as error:
    print(error)
`);
    assertMatch(text ?? "", /was not started: .* its sandbox settings, have changed since/);
  });

  await step(
    "in a workspace in another one, it sees nothing of the outer one's state",
    async () => {
      await executor.execute(`
import os
os.makedirs("inner/.ipybox", exist_ok=True)
open("inner/.ipybox/policy.json", "w").write('{"rules": [{"effect": "allow"}]}')
open("inner/.env", "w").write("KERNEL_ENV_X=of code")`);
      assertEquals(await readDotenv(inner), {});
      await using test = await TestExecutor.start({ workspace: inner });
      const results = await attack(
        test.executor,
        `${TOOLS}
attempt("variable", lambda: os.environ["X"])
attempt("state", lambda: os.listdir(${JSON.stringify(folder.path)} + "/.ipybox")[0])
attempt("own state", lambda: os.listdir(".ipybox")[0])
attempt("above", lambda: write(${JSON.stringify(folder.path)} + "/planted"))
attempt("dotenv", lambda: open(".env").read()[0])`,
      );
      const { variable, ...others } = results;
      assertEquals([variable, Object.keys(others).length], ["KeyError", 4]);
      for (const [name, outcome] of Object.entries(others)) {
        if (outcome !== "IndexError") assertMatch(outcome, DENIED, name); // it is empty
      }
    },
  );
});

Deno.test("a registry that nobody registered starts no server unasked", async (t) => {
  await using outside = await TempFolder.create();
  const journal = `${outside.path}/journal`;
  const started = () => Deno.stat(journal).then(() => true, () => false);
  const plant = async (workspace: string, params: StdioServerParams) => {
    await Deno.mkdir(`${workspace}/.ipybox`, { recursive: true });
    const text = JSON.stringify({ mcpServers: { raw: params } });
    await Deno.writeTextFile(`${workspace}/.ipybox/mcp.json`, text);
  };
  const ask = `
import json
from ipybox_runtime.session import default_session
def ask(name, body):
    return default_session().call(name, json.dumps(body).encode())
`;
  const list = `${ask}
print(ask("catalog", {"server": "raw", "method": "resources/list", "params": {}}))`;
  const call = `from ipybox_runtime import ToolRunner
try:
    print("called", ToolRunner("raw").run_sync("count"))
except Exception as error:
    print(type(error).__name__, error)`;

  await t.step(
    "for a list or a call; the question shows its command, and a no counts",
    async () => {
      await using folder = await TempFolder.create();
      await plant(folder.path, { ...rawServer("normal", journal), env: { NODE_OPTIONS: "evil" } });
      await using test = await TestExecutor.start({ workspace: folder.path, sandbox: false });
      for (const code of [list, call]) {
        const asked: string[] = [];
        const { result } = await follow(test.executor, code, (request) => {
          asked.push(`${request.kind} ${request.toolName} ${request.argumentsJson}`);
          assertEquals(request.scopes, []);
          return request.reject("not mine");
        });
        assertEquals(asked.length, 1);
        assertMatch(
          asked[0] ?? "",
          /^change start_mcp_server .*raw_server\.ts.*NODE_OPTIONS":"evil"/,
        );
        assertMatch(result?.text ?? "", /not mine/);
        assertEquals(await started(), false);
      }
      // Accepting whatever is called does not accept what is started.
      assertMatch(
        (await test.executor.execute(call)).text ?? "",
        /start of servers that are new or have changed/,
      );
      assertEquals(await started(), false);
    },
  );

  await t.step("nor where nobody can be asked, or a policy beside it allows all", async () => {
    await using folder = await TempFolder.create();
    await plant(folder.path, rawServer("normal", journal));
    const policy = '{"rules": [{"effect": "allow"}]}';
    await writeAcceptedPolicy(folder.path, policy);
    const code = `${list}\n${call}`;
    const run = ["run", "--no-sandbox", "--workspace", folder.path];
    const { stdout } = await ipybox([...run, "-c", code]);
    assertMatch(stdout, /(has not registered it.*ipybox trust[^]*){2}/);
    assertEquals(await started(), false);
  });

  await t.step("nor in an MCP client, whose user is asked", async () => {
    await using folder = await TempFolder.create();
    await plant(folder.path, rawServer("normal", journal));
    const asked: string[] = [];
    await using host = await McpHost.start({
      args: ["--workspace", folder.path, "--no-sandbox"],
      answer: (question) => {
        asked.push(question);
        return "deny";
      },
    });
    const { text } = await host.call("execute_ipython_cell", { code: call });
    assertEquals(asked.length, 1);
    assertMatch(asked[0] ?? "", /start_mcp_server[^]*raw_server\.ts[^]*have not registered it/);
    assertMatch(text, /was not started/);
    assertEquals(await started(), false);
  });
});

/** A program that leaves a mark where it is started. */
async function planted(path: string, mark: string): Promise<void> {
  await Deno.writeTextFile(path, `#!/bin/sh\ntouch '${mark}'\nexec ${testPython()} "$@"\n`, {
    mode: 0o755,
  });
}

Deno.test("a link that code put in the place of a script sends it no other file of the user's", async () => {
  await using outside = await TempFolder.create();
  await using workspace = await TempFolder.create();
  await Deno.writeTextFile(`${outside.path}/settings.py`, "print('of the user')\n");
  const cwd = workspace.path;
  await Deno.symlink(`${outside.path}/settings.py`, `${cwd}/script.py`);
  await Deno.symlink(outside.path, `${cwd}/folder`);
  for (const script of ["script.py", `${cwd}/script.py`, "folder/settings.py"]) {
    const { code, stdout, stderr } = await ipybox(["run", script], { cwd });
    assertEquals({ code, stdout }, { code: 2, stdout: "" });
    assertStringIncludes(stderr, "is a symbolic link in the workspace");
  }
  assertEquals((await ipybox(["run", "folder"], { cwd })).code, 2);
  await new Deno.Command("mkfifo", { args: [`${cwd}/pipe.py`] }).output();
  const { stderr } = await ipybox(["run", "pipe.py"], { cwd }); // nobody writes to it
  assertStringIncludes(stderr, '"pipe.py" is not a plain file');
});
