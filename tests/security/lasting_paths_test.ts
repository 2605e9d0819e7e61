/** Attacks by code that makes, in its workspace, what has the name of a thing that code cannot write. */
import { assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { CodeExecutor } from "../../src/executor/code_executor.ts";
import { ConfigError } from "../../src/base/errors.ts";
import { silentLogger } from "../../src/base/log.ts";
import { shellWord } from "../../src/base/shell_word.ts";
import { findPython } from "../../src/python/environment.ts";
import { requireOwnProgram } from "../../src/sandbox/workspace.ts";
import { ServerRegistry } from "../../src/servers/registry.ts";
import { ipybox } from "../support/cli.ts";
import { TestExecutor } from "../support/executor.ts";
import { HttpMcp } from "../support/http_mcp.ts";
import { McpHost } from "../support/mcp_client.ts";
import { rawServer } from "../support/mcp.ts";
import { testPython } from "../support/python.ts";
import { TempFolder } from "../support/temp_folder.ts";

const log = silentLogger;
const NEW = /did not exist when code first ran in the workspace, or was recreated since/;

const CALL = `
from ipybox_runtime import ToolRunner
try:
    print("called", ToolRunner("dev").run_sync("count"))
except Exception as error:
    print(error)
`;

Deno.test("a server in a virtual environment works in all sessions, as long as it is the same one", async () => {
  await using folder = await TempFolder.create();
  const workspace = folder.path;
  await register(workspace);
  for (let session = 0; session < 2; session++) {
    await using started = await TestExecutor.start({ workspace });
    assertMatch(await run(started, CALL), /^called/);
    await started.executor.reset();
    assertMatch(await run(started, CALL), /^called/);
  }
});

Deno.test("code that makes an absent virtual environment does not choose what the host runs", async () => {
  await using folder = await TempFolder.create();
  await using outside = await TempFolder.create();
  const workspace = folder.path;
  const ran = `${outside.path}/ran`;
  await register(workspace);
  await Deno.remove(`${workspace}/.venv`, { recursive: true });
  {
    await using started = await TestExecutor.start({ workspace });
    assertMatch(await run(started, plant(ran) + CALL), NEW);
    await started.executor.reset();
    assertMatch(await run(started, CALL), NEW);
  }
  // Nor in a later session, which protects it, nor as the Python of one.
  const python = `${workspace}/.venv/bin/python`;
  await assertRejects(
    () => CodeExecutor.start({ workspace, python, log }),
    ConfigError,
    "recreated",
  );
  await assertRejects(() => findPython({ python, workspace }), ConfigError, "recreated since");
  for (const args of [["run", "-c", "1"], ["doctor"]]) {
    const { stderr } = await ipybox([...args, "--python", python], { cwd: workspace });
    assertMatch(stderr.replaceAll(/\s+/g, " "), NEW);
  }
  {
    await using started = await TestExecutor.start({ workspace });
    assertMatch(await run(started, CALL), NEW);
  }
  await assertRejects(() => Deno.lstat(ran), Deno.errors.NotFound);
});

Deno.test("code that changes a virtual environment made anew in a session does not choose what the host runs", async () => {
  await using folder = await TempFolder.create();
  await using outside = await TempFolder.create();
  const workspace = folder.path;
  const ran = `${outside.path}/ran`;
  await register(workspace);
  await using started = await TestExecutor.start({ workspace });
  assertStringIncludes(await run(started, plant(ran)), "Error");
  await Deno.remove(`${workspace}/.venv`, { recursive: true });
  await makeServer(workspace);
  assertEquals(await run(started, plant(ran)), "planted");
  assertMatch(await run(started, CALL), NEW);
  await assertRejects(() => Deno.lstat(ran), Deno.errors.NotFound);
});

Deno.test("code that makes a folder look like a virtual environment has no server registered there", async () => {
  await using folder = await TempFolder.create();
  const workspace = folder.path;
  await Deno.mkdir(`${workspace}/tools`);
  await Deno.writeTextFile(`${workspace}/tools/server.py`, "");
  const params = { command: testPython(), args: [`${workspace}/tools/server.py`] };
  const planted = "open('tools/pyvenv.cfg', 'w').write('home = /usr/bin'); print('planted')";
  {
    await using started = await TestExecutor.start({ workspace });
    const add = () => started.executor.registerServer("dev", params);
    await assertRejects(add, ConfigError, "executed code could replace");
    assertEquals(await run(started, planted), "planted");
    await assertRejects(add, ConfigError, "recreated since");
  }
  const args = ["register", "dev", "--", params.command, ...params.args];
  const { code, stderr } = await ipybox(args, { cwd: workspace });
  assertEquals(code === 0, false);
  assertStringIncludes(stderr.replaceAll(/\s+/g, " "), "recreated since");
});

Deno.test("a virtual environment that code made stays its own in a workspace that is moved", async () => {
  await using folder = await TempFolder.create();
  const [old, moved] = [`${folder.path}/old`, `${folder.path}/moved`];
  await using outside = await TempFolder.create();
  const ran = `${outside.path}/ran`;
  await Deno.mkdir(old);
  {
    await using started = await TestExecutor.start({ workspace: old });
    assertEquals(await run(started, plant(ran)), "planted");
  }
  await Deno.rename(old, moved);

  const python = `${moved}/.venv/bin/python`;
  await assertRejects(() => findPython({ python, workspace: moved }), ConfigError, "was moved");

  await assertRejects(() => Deno.lstat(ran), Deno.errors.NotFound);
});

Deno.test("a virtual environment that code made stays its own in a copy for a session over HTTP", async () => {
  await using folder = await TempFolder.create();
  await using outside = await TempFolder.create();
  const workspace = folder.path;
  const ran = `${outside.path}/ran`;
  const registry = await ServerRegistry.open({ workspace });
  await registry.register("dev", { command: "${workspaceFolder}/.venv/bin/my-server" });
  {
    await using started = await TestExecutor.start({ workspace });
    assertMatch(await run(started, plant(ran) + CALL), NEW);
  }
  const args = ["--workspace", workspace, "--approve", "allow", "--share-workspace", "copy"];
  await using server = await HttpMcp.start(args);
  await using tenant = await McpHost.join(server.address, {});

  assertMatch(await tenant.execute(CALL), NEW);

  await assertRejects(() => Deno.lstat(ran), Deno.errors.NotFound);
});

Deno.test("code in a workspace that is an environment gives its Python no other standard library", async () => {
  await using folder = await TempFolder.create();
  const workspace = folder.path;
  await Deno.mkdir(`${workspace}/conda-meta`); // as conda makes it, without pyvenv.cfg
  await Deno.mkdir(`${workspace}/bin`);
  const python = `${workspace}/bin/python`;
  await Deno.writeTextFile(python, "#!/bin/sh\nexit 1\n", { mode: 0o755 });
  const plantedSettings = "open('pyvenv.cfg', 'w').write('home = /elsewhere'); print('planted')";

  await assertRejects(() => findPython({ python, workspace }), ConfigError, "pyvenv.cfg");
  {
    await using started = await TestExecutor.start({ workspace });
    assertEquals(await run(started, plantedSettings), "planted");
  }
  await assertRejects(
    () => CodeExecutor.start({ workspace, python, log }),
    ConfigError,
    `as settings of ${python}`,
  );
});

Deno.test("code that changes what an environment's Python is based on does not choose what the host runs", async () => {
  await using folder = await TempFolder.create();
  const workspace = folder.path;
  await Deno.mkdir(`${workspace}/tools/bin`, { recursive: true });
  await Deno.mkdir(`${workspace}/.venv/bin`, { recursive: true });
  const python = `${workspace}/.venv/bin/python`; // a copy, as `python -m venv --copies` makes it
  await Deno.writeTextFile(python, "#!/bin/sh\nexit 1\n", { mode: 0o755 });
  await Deno.writeTextFile(`${workspace}/.venv/pyvenv.cfg`, `home = ${workspace}/tools/bin\n`);

  await assertRejects(() => findPython({ python, workspace }), ConfigError, `as base of ${python}`);
});

Deno.test("an environment is not based on what a link leads to in another workspace", async () => {
  await using folder = await TempFolder.create();
  await using outside = await TempFolder.create();
  await using workspace = await TempFolder.create();
  await Deno.mkdir(`${folder.path}/.ipybox`); // another workspace, whose code could change what is there
  await Deno.mkdir(`${folder.path}/tools/bin`, { recursive: true });
  await Deno.symlink(`${folder.path}/tools`, `${outside.path}/tools`);
  await Deno.mkdir(`${outside.path}/venv/bin`, { recursive: true });
  const python = `${outside.path}/venv/bin/python`;
  await Deno.writeTextFile(python, "#!/bin/sh\nexit 1\n", { mode: 0o755 });
  await Deno.writeTextFile(
    `${outside.path}/venv/pyvenv.cfg`,
    `home = ${outside.path}/tools/bin\n`,
  );

  await assertRejects(
    () => findPython({ python, workspace: workspace.path }),
    ConfigError,
    `as base of ${python}`,
  );
});

Deno.test("the Deno that runs ipybox may be in packages made anew, but not where code can exchange it", async () => {
  await using folder = await TempFolder.create();
  const workspace = folder.path;
  await using started = await TestExecutor.start({ workspace });
  assertEquals(await run(started, "open('deno', 'w').close(); print('planted')"), "planted");
  await Deno.mkdir(`${workspace}/node_modules`); // as `npm ci` does
  await Deno.writeTextFile(`${workspace}/node_modules/deno`, "");
  const check = (program: string, isRunning: boolean) =>
    requireOwnProgram(`${workspace}/${program}`, { what: "Deno", isRunning });

  await check("node_modules/deno", true);
  await assertRejects(() => check("node_modules/deno", false), ConfigError, "recreated since");
  await assertRejects(() => check("deno", true), ConfigError, "executed code could replace");
});

/** Registers a server that is installed in the workspace's virtual environment. */
async function register(workspace: string): Promise<void> {
  await makeServer(workspace);
  const registry = await ServerRegistry.open({ workspace });
  await registry.register("dev", { command: `${workspace}/.venv/bin/my-server` });
}

async function makeServer(workspace: string): Promise<void> {
  const { command, args = [] } = rawServer();
  await Deno.mkdir(`${workspace}/.venv/bin`, { recursive: true });
  await Deno.writeTextFile(`${workspace}/.venv/pyvenv.cfg`, "home = /usr/bin\n");
  const line = [command, ...args].map(shellWord).join(" ");
  await Deno.writeTextFile(`${workspace}/.venv/bin/my-server`, `#!/bin/sh\nexec ${line}\n`, {
    mode: 0o755,
  });
}

/** Code that puts programs there, which leave a mark that no code in the sandbox could leave. */
function plant(mark: string): string {
  return `
import os
try:
    os.makedirs(".venv/bin", exist_ok=True)
    open(".venv/pyvenv.cfg", "w").write("home = /usr/bin")
    for name in ["my-server", "python"]:
        path = ".venv/bin/" + name
        open(path, "w").write("#!/bin/sh\\ntouch ${mark}\\nexit 1\\n")
        os.chmod(path, 0o755)
    print("planted")
except OSError as error:
    print(type(error).__name__, "Error")
`;
}

async function run({ executor }: TestExecutor, code: string): Promise<string> {
  return (await executor.execute(code)).text ?? "";
}
