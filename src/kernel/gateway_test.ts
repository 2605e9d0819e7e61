import {
  assert,
  assertEquals,
  assertInstanceOf,
  assertMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { untilNoneWith } from "../../tests/support/processes.ts";
import { testPython } from "../../tests/support/python.ts";
import { RawKernel } from "../../tests/support/raw_kernel.ts";
import { testIf } from "../../tests/support/skip.ts";
import { TempFolder } from "../../tests/support/temp_folder.ts";
import {
  ConfigError,
  EnvironmentNotReadyError,
  GatewayStartError,
  SandboxUnavailableError,
} from "../base/errors.ts";
import { silentLogger } from "../base/log.ts";
import type { Logger } from "../base/log.ts";
import { KernelGateway } from "./gateway.ts";
import type { KernelGatewayOptions } from "../place/place.ts";

/** A log that records warnings and errors. */
class Recorder implements Logger {
  readonly warnings: string[] = [];
  debug(): void {}
  info(): void {}
  warn(message: string): void {
    this.warnings.push(message);
  }
  error(message: string): void {
    this.warnings.push(message);
  }
}

function start(
  workspace: TempFolder,
  options: Partial<KernelGatewayOptions> = {},
): Promise<KernelGateway> {
  return KernelGateway.start({ python: testPython(), workspace: workspace.path, ...options });
}

/** Asserts that a gateway has left no processes and no folder. */
async function assertNothingLeft(gateway: KernelGateway): Promise<void> {
  await untilNoneWith(gateway.sessionDir);
  await assertRejects(() => Deno.stat(gateway.sessionDir), Deno.errors.NotFound);
}

for (const sandbox of [true, false]) {
  const where = sandbox ? "in the sandbox" : "without a sandbox";

  Deno.test(`KernelGateway runs kernels ${where} and leaves nothing behind`, async () => {
    await using workspace = await TempFolder.create();
    const log = new Recorder();
    const gateway = await start(workspace, { sandbox, log });
    {
      await using kernel = await RawKernel.start(gateway);
      assertEquals(await kernel.run("x = 20\nprint(x + 1)"), "21\n");
      assertEquals(await kernel.run("x / 0"), "division by zero");
      assertEquals(await kernel.run("import os; print(os.getcwd())"), `${workspace.path}\n`);
      assertEquals(
        await kernel.run("import subprocess; subprocess.Popen(['setsid', 'sleep', '1000'])\n0;"),
        "",
      );
    }
    await gateway[Symbol.asyncDispose]();
    await assertNothingLeft(gateway);
    assertEquals((await gateway.exited).signal, null);
    const expected = sandbox ? [] : ["No sandbox"];
    assertEquals(log.warnings.length, expected.length);
    expected.forEach((text, i) => assertStringIncludes(log.warnings[i] ?? "", text));
  });

  Deno.test(`kernels ${where} get the documented environment and reach the door, and nothing else of the host's`, async () => {
    await using workspace = await TempFolder.create();
    await Deno.mkdir(`${workspace.path}/mcptools/demo`, { recursive: true });
    await Deno.writeTextFile(`${workspace.path}/mcptools/demo/__init__.py`, "ANSWER = 42");
    await Deno.writeTextFile(`${workspace.path}/json.py`, "raise RuntimeError('shadowed')");
    await using door = Deno.serve(
      { hostname: "127.0.0.1", port: 0, onListen() {} },
      async (request) => new Response(`you said ${(await request.bytes()).length}`),
    );
    Deno.env.set("IPYBOX_TEST_SECRET_GATEWAY", "leaked");
    try {
      await using gateway = await start(workspace, {
        sandbox,
        kernelEnv: { MINE: "a $HOME {b} 'c'" },
        kernelDoor: { hostname: "127.0.0.1", port: door.addr.port },
        kernelToken: "door-token",
      });
      await using kernel = await RawKernel.start(gateway);
      const names = await kernel.run("import os; print(*sorted(os.environ))");
      const expected = "IPYBOX_TOOL_TOKEN IPYBOX_TOOL_URL IPYTHONDIR JUPYTER_CONFIG_DIR " +
        "JUPYTER_DATA_DIR JUPYTER_NO_CONFIG JUPYTER_RUNTIME_DIR LANG MINE MPLCONFIGDIR PATH " +
        "PYTHONPATH TMPDIR";
      for (const name of expected.split(" ")) assert(names.split(/\s/).includes(name), name);
      const secret =
        "import os; print('IPYBOX_TEST_SECRET_GATEWAY' in os.environ, os.environ['MINE'])";
      assertEquals(await kernel.run(secret), "False a $HOME {b} 'c'\n");
      assertEquals(
        await kernel.run("import ipybox_runtime, mcptools.demo; print(mcptools.demo.ANSWER)"),
        "42\n",
      );
      const url = await kernel.run("print(os.environ['IPYBOX_TOOL_URL'], os.environ['HOME'])");
      assertMatch(url, /^tcp:\/\/127\.0\.0\.1:\d+ \/.*\/session\/kernels\/\w+\n$/);
      const answers = await kernel.run(`
import os, urllib.request
def post(size):
    url = os.environ["IPYBOX_TOOL_URL"].replace("tcp:", "http:")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    return opener.open(url, data=b"x" * size).read().decode()
print(post(5), post(3_000_000))
`);
      assertEquals(answers, "you said 5 you said 3000000\n");
    } finally {
      Deno.env.delete("IPYBOX_TEST_SECRET_GATEWAY");
    }
  });
}

Deno.test("the gateway's token is not to be had from a kernel", async () => {
  await using workspace = await TempFolder.create();
  await using gateway = await start(workspace);
  await using kernel = await RawKernel.start(gateway);
  const found = await kernel.run(`
import os, pathlib
token = bytes.fromhex("${gateway.token.slice(0, 32)}").hex() + "${gateway.token.slice(32)}"
seen = []
for pid in os.listdir("/proc"):
    if pid.isdigit() and int(pid) != os.getpid():
        for name in ("environ", "cmdline"):
            try:
                if token.encode() in pathlib.Path("/proc", pid, name).read_bytes():
                    seen.append((pid, name))
            except OSError:
                pass
for path in pathlib.Path.home().rglob("*"):
    try:
        if token.encode() in path.read_bytes():
            seen.append(str(path))
    except OSError:
        pass
print(seen)
`);
  assertEquals(found, "[]\n");
  const refused = await fetch(new URL("api/kernels", gateway.url), { method: "POST" });
  await refused.body?.cancel();
  assertEquals(refused.status, 401);
});

testIf(Deno.uid() !== 0, "root can", {
  name: "kernels cannot look into gateway and launcher",
  fn: async () => {
    await using workspace = await TempFolder.create();
    await using gateway = await start(workspace);
    await using kernel = await RawKernel.start(gateway);
    const code = `
import os
for pid in (1, 2, os.getppid()):
    for name in ("mem", "environ", "fd/0"):
        try:
            open(f"/proc/{pid}/{name}", "rb")
            print(pid, name)
        except OSError:
            pass
`;
    assertEquals(await kernel.run(code), "");
  },
});

Deno.test("KernelGateway.start() names a Python that does not exist", async () => {
  await using workspace = await TempFolder.create();
  const error = await assertRejects(
    () => start(workspace, { python: "/no/such/python" }),
    EnvironmentNotReadyError,
    "Cannot start /no/such/python: command not found",
  );
  assertEquals(error.fix, "ipybox setup");
});

Deno.test("KernelGateway.start() names what is no Python, and packages that are missing", async () => {
  await using workspace = await TempFolder.create();
  await using programs = await TempFolder.create();
  await assertRejects(
    () => start(workspace, { python: "/bin/false" }),
    EnvironmentNotReadyError,
    "/bin/false is not a working Python interpreter (exit code 1)",
  );
  const args = ["-I", "-m", "venv", "--without-pip", programs.path];
  assert((await new Deno.Command(testPython(), { args }).output()).success);
  const bare = `${programs.path}/bin/python`;
  const error = await assertRejects(
    () => start(workspace, { python: bare }),
    EnvironmentNotReadyError,
    "lacks jupyter_kernel_gateway and ipykernel",
  );
  assertEquals(error.fix, `${bare} -m pip install jupyter_kernel_gateway ipykernel`);
});

/** A Python that answers the first question correctly and then does something else. */
async function pretender(folder: TempFolder, script: string): Promise<string> {
  const path = `${folder.path}/pretender`;
  const answer = JSON.stringify({
    ...{ python: path, checker: null, missing: [] },
    ...{ variables: {}, readable: ["/usr"] },
  });
  const text = `#!/bin/sh\nif [ "$3" = -c ]; then echo '${answer}'; exit; fi\n${script}\n`;
  await Deno.writeTextFile(path, text, { mode: 0o755 });
  return path;
}

Deno.test("KernelGateway.start() reports the launcher's last words", async () => {
  await using workspace = await TempFolder.create();
  await using programs = await TempFolder.create();
  const python = await pretender(programs, "echo 'it broke' >&2; exit 3");
  const error = await assertRejects(
    () => start(workspace, { python, sandbox: false }),
    GatewayStartError,
    "The launcher exited with code 3",
  );
  assertEquals([error.exitCode, error.signal, error.stderrTail], [3, null, "it broke\n"]);
});

Deno.test("KernelGateway.start() does not believe a launcher that sends garbage", async () => {
  await using workspace = await TempFolder.create();
  await using programs = await TempFolder.create();
  const python = await pretender(programs, "echo 'Welcome to the machine'; cat >/dev/null");
  const error = await assertRejects(
    () => start(workspace, { python, sandbox: false }),
    GatewayStartError,
    "The link carried a frame of unknown type 87",
  );
  assertEquals(error.exitCode, 0);
});

Deno.test("KernelGateway.start() does not believe a READY that is no report", async () => {
  await using workspace = await TempFolder.create();
  await using programs = await TempFolder.create();
  const frame = String.raw`printf '\005\000\000\000\000\000\000\000\002{}'`;
  const python = await pretender(programs, `${frame}; cat >/dev/null`);
  await assertRejects(() => start(workspace, { python, sandbox: false }), GatewayStartError);
});

Deno.test("KernelGateway.start() refuses to run code when the sandbox does not hold", async () => {
  await using workspace = await TempFolder.create();
  await assertRejects(
    () => start(workspace, { sandbox: { config: { filesystem: { disabled: true } } } }),
    ConfigError,
    "filesystem.disabled would let sandboxed code escape",
  );
  const config = { filesystem: { disabled: true }, network: { allowAllUnixSockets: true } };
  const error = await assertRejects(
    () => start(workspace, { sandbox: { config, allowUnsafe: true } }),
    SandboxUnavailableError,
    "/canary can be opened",
  );
  assertInstanceOf(error, EnvironmentNotReadyError);
});

Deno.test("KernelGateway.start() reports a gateway that exits at once", async () => {
  await using workspace = await TempFolder.create();
  await using programs = await TempFolder.create();
  const script = `case "$2" in *gateway.py) echo 'no such module' >&2; exit 5;; esac`;
  const python = await pretender(programs, `${script}\nexec ${testPython()} "$@"`);
  const error = await assertRejects(
    () => start(workspace, { python, sandbox: false }),
    GatewayStartError,
    "The kernel gateway exited with code 5",
  );
  assertEquals([error.exitCode, error.stderrTail], [5, "no such module\n"]);
});

Deno.test("KernelGateway.start() gives up in time, and when it is told to", async () => {
  await using workspace = await TempFolder.create();
  await using programs = await TempFolder.create();
  const python = await pretender(programs, "echo 'thinking' >&2; while read -r _; do :; done");
  const late = await assertRejects(
    () => start(workspace, { python, sandbox: false, startTimeoutMs: 2000 }),
    GatewayStartError,
    "did not answer within 2 s. ",
  );
  assertStringIncludes(late.message, "thinking");

  const controller = new AbortController();
  const reason = new Error("changed my mind");
  const starting = start(workspace, { python, sandbox: false, signal: controller.signal });
  controller.abort(reason);
  assertEquals(await starting.catch((error: unknown) => error), reason);
});

Deno.test("KernelGateway.start() that is given up as it connects leaves no connection", async () => {
  await using workspace = await TempFolder.create();
  const controller = new AbortController();
  const reason = new Error("changed my mind");
  const debug = (message: string) => {
    // The steps from here until it connects run in one go.
    if (message.startsWith("The launcher is up")) queueMicrotask(() => controller.abort(reason));
  };
  const log = { ...silentLogger, debug };
  const starting = start(workspace, { sandbox: false, signal: controller.signal, log });
  assertEquals(await starting.then(() => "it started", (error: unknown) => error), reason);
});

Deno.test("KernelGateway.start() refuses a workspace that is missing or too wide", async () => {
  await assertRejects(
    () => KernelGateway.start({ python: testPython(), workspace: "/no/such/workspace" }),
    Deno.errors.NotFound,
    "Cannot use /no/such/workspace as workspace",
  );
  await assertRejects(
    () => KernelGateway.start({ python: testPython(), workspace: "/" }),
    ConfigError,
    "sandboxed code could read the whole home directory",
  );
});
