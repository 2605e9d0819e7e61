/** Kernels in containers of a real engine. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import {
  ConfigError,
  EnvironmentNotReadyError,
  KernelDiedError,
  SandboxUnavailableError,
} from "../../src/base/errors.ts";
import { silentLogger } from "../../src/base/log.ts";
import { CodeExecutor } from "../../src/executor/code_executor.ts";
import { endDurable, listSessions } from "../../src/executor/durable.ts";
import type { CodeExecutorOptions } from "../../src/executor/options.ts";
import { engine, engineName, kernelImage, whyNoEngine } from "../support/engine.ts";
import { rejection, until } from "../support/wait.ts";
import { useSession } from "../support/placed.ts";
import { processesWith } from "../support/processes.ts";
import { testIf } from "../support/skip.ts";
import { TempFolder } from "../support/temp_folder.ts";

const why = await whyNoEngine();
const test = (name: string, fn: () => Promise<void>) =>
  testIf(why === undefined, why ?? "", { name, fn });
const container = { type: engineName, image: kernelImage } as const;

/** A workspace that belongs to an ordinary user: code in containers is not root. */
async function ownWorkspace(): Promise<TempFolder> {
  const folder = await TempFolder.create();
  if (Deno.uid() === 0) await Deno.chown(folder.path, 10001, 10001);
  return folder;
}

async function start(workspace: string, options: CodeExecutorOptions = {}): Promise<CodeExecutor> {
  return await CodeExecutor.start({
    workspace,
    log: silentLogger,
    placement: container,
    ...options,
  });
}

/** The containers of a workspace's sessions. */
async function containers(workspace: string): Promise<string[]> {
  const filter = `label=ipybox.workspace=${workspace}`;
  const { text } = await engine("ps", "--quiet", "--no-trunc", "--filter", filter);
  return text.trim().split("\n").filter((id) => id !== "");
}

const ATTEMPTS = `
import os, pathlib, socket, subprocess
def attempt(act):
    try:
        return str(act())
    except OSError as error:
        return type(error).__name__
`;

test("a session in a container does what one here does", async () => {
  await using folder = await ownWorkspace();
  {
    await using executor = await start(folder.path);
    await useSession(executor);
    const { text } = await executor.execute(
      "import os, pathlib\npathlib.Path('made.txt').write_text('by code')\nprint(os.getcwd())",
    );
    assertEquals(text, "/workspace");
    assertEquals(await Deno.readTextFile(`${folder.path}/made.txt`), "by code");
  }
  assertEquals(await containers(folder.path), []);
});

test("code in a container sees no network, no host, and of the workspace what it may", async () => {
  await using folder = await ownWorkspace();
  const { path } = folder;
  await Deno.writeTextFile(`${path}/.env`, "SECRET=1");
  await Deno.writeTextFile(`${path}/.mcp.json`, "{}");
  await Deno.mkdir(`${path}/.git`);
  await Deno.writeTextFile(`${path}/.git/config`, "[core]");
  await Deno.mkdir(`${path}/a, "b"`);
  await Deno.writeTextFile(`${path}/a, "b"/.env`, "SECRET=2");
  if (Deno.uid() === 0) await new Deno.Command("chown", { args: ["-R", "10001", path] }).output();
  await using executor = await start(path);
  const { text } = await executor.execute(`${ATTEMPTS}
print(attempt(lambda: socket.create_connection(("1.1.1.1", 53), 1)))
print(attempt(lambda: socket.socket(socket.AF_UNIX).connect("/run/docker.sock")))
print(attempt(lambda: open("/workspace/.env").read()), attempt(lambda: open('/workspace/a, "b"/.env').read()))
print(attempt(lambda: os.listdir("/workspace/.ipybox")), attempt(lambda: os.listdir("/workspace/mcptools")))
for path in (".mcp.json", ".git/config", "mcptools/x.py", ".ipybox/x"):
    print(attempt(lambda: open(f"/workspace/{path}", "a").write("x")))
for path in (".mcp.json", 'a, "b"', ".git", "mcptools"):
    print(attempt(lambda: os.rename(f"/workspace/{path}", "/workspace/y")))
print(attempt(lambda: open("/opt/ipybox/programs/launcher/kernel.py", "a")))
print(attempt(lambda: open("/etc/x", "w")), attempt(lambda: open("/proc/1/mem", "rb")))
print(os.getuid() != 0)`);
  assertEquals(text?.split("\n"), [
    "OSError",
    "FileNotFoundError",
    " ",
    "PermissionError []",
    ...["OSError", "OSError", "OSError", "PermissionError"],
    ...["OSError", "OSError", "OSError", "OSError"],
    "PermissionError",
    "OSError PermissionError",
    "True",
  ]);
  assertEquals(await Deno.readTextFile(`${path}/.env`), "SECRET=1");
});

test("a container without the workspace has an empty folder, and gets modules by the link", async () => {
  await using folder = await TempFolder.create();
  await Deno.writeTextFile(`${folder.path}/mine.txt`, "mine");
  const placement = { ...container, workspace: "none" } as const;
  await using executor = await start(folder.path, { placement });
  assertEquals((await executor.execute("import os; os.listdir('.')")).text, "[]");
  await useSession(executor);
});

/** Starts processes until there may be no more, and ends them. */
const START_MANY = `
import subprocess
started = []
try:
    while len(started) < 1000:
        started.append(subprocess.Popen(["sleep", "60"]))
except OSError as error:
    print(type(error).__name__, len(started) < 200)
for process in started:
    process.kill(); process.wait()`;

test("all of a session together is bounded by the engine", async () => {
  await using folder = await ownWorkspace();
  const limits = { processes: 100, memoryBytes: 1024 ** 3 };
  const warnings: string[] = [];
  const log = { ...silentLogger, warn: (message: string) => void warnings.push(message) };
  await using executor = await start(folder.path, { limits, log });
  assertEquals(warnings, []);
  const { text } = await executor.execute(START_MANY);
  assertEquals(text, "BlockingIOError True");
  // Each process stays below its own limit, and one of them has to go.
  const { text: ended } = await executor.execute(
    `
import subprocess, sys
grow = "data = bytearray(300 << 20)\\nfor at in range(0, len(data), 4096): data[at] = 1\\ninput()"
started = [subprocess.Popen([sys.executable, "-c", grow], stdin=subprocess.PIPE) for _ in range(5)]
while all(process.poll() is None for process in started): pass
print(sorted(process.poll() for process in started if process.poll() is not None)[0])
for process in started:
    process.kill(); process.wait()`,
    { timeoutMs: 120_000 },
  );
  assertEquals(ended, "-9");
});

test("where the engine does not bound a session, its processes are limited all the same", async () => {
  await using folder = await ownWorkspace();
  const warnings: string[] = [];
  const log = { ...silentLogger, warn: (message: string) => void warnings.push(message) };
  // What engines of users without rights do by themselves
  const args = ["--pids-limit", "-1"];
  const limits = { processes: 100 };
  await using executor = await start(folder.path, {
    ...{ limits, log, placement: { ...container, args } },
  });
  const { text } = await executor.execute(`${START_MANY}
import resource
print(resource.getrlimit(resource.RLIMIT_NOFILE)[1])`);
  assertEquals(text, "BlockingIOError True\n2048");
  assertMatch(warnings.join(), /does not bound the processes of a session as a whole/);
});

test("what is orphaned in a container is reaped, and a signal to it ends the session", async () => {
  await using folder = await ownWorkspace();
  await using executor = await start(folder.path);
  const { text } = await executor.execute(`
import os, subprocess, time
subprocess.run("(sleep 0.1 &) ; (sleep 0.1 &)", shell=True)
def zombies():
    states = [open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] for pid in os.listdir("/proc") if pid.isdigit()]
    return states.count("Z")
deadline = time.monotonic() + 30
time.sleep(0.3)
while zombies() and time.monotonic() < deadline:
    time.sleep(0.05)
print(zombies())`);
  assertEquals(text, "0");
  const [own = ""] = await containers(folder.path);
  assertEquals((await engine("stop", own)).success, true);
  const error = await rejection(executor.execute("1"));
  assert(error instanceof KernelDiedError, `${error}`);
  assertEquals((await executor.execute("6 * 7")).text, "42");
});

test("a container that is killed in mid-call is a death, and the call is void", async () => {
  await using folder = await ownWorkspace();
  await using executor = await start(folder.path);
  const running = rejection(
    executor.execute("import pathlib, time; pathlib.Path('on').touch(); time.sleep(600)"),
  );
  await until("it runs", () => Deno.stat(`${folder.path}/on`).then(() => true, () => false));
  const [own = ""] = await containers(folder.path);
  await engine("kill", own);
  const error = await running;
  assert(error instanceof KernelDiedError, `${error}`);
  assertStringIncludes(error.message, engineName);
});

test("an image or an engine that does not fit is refused with what to do", async () => {
  await using folder = await ownWorkspace();
  const attempt = async (options: CodeExecutorOptions) => {
    const error = await rejection(start(folder.path, options));
    assert(error instanceof EnvironmentNotReadyError, `${error}`);
    return error;
  };
  const missing = await attempt({ placement: { ...container, image: "no-such-image:1" } });
  assertMatch(missing.message, /no-such-image/);
  assertMatch(missing.fix, /docker build/);
  const python = await attempt({ python: "/no/such/python3" });
  assertMatch(python.message, /no\/such\/python3/);
  assertMatch(python.fix, /--python/);
  const bare = await attempt({ python: "/usr/bin/python3" });
  assertMatch(bare.message, /lacks .*ipykernel/);
  const open = await attempt({ placement: { ...container, args: ["--cap-add", "SYS_PTRACE"] } });
  assert(open instanceof SandboxUnavailableError, `${open}`);
  assertMatch(open.message, /it has capabilities \(Cap/);
  const refused = await attempt({ placement: { ...container, args: ["--no-such-option"] } });
  assertMatch(refused.message, /no-such-option/);
});

test("a workspace that is root's is refused: code must not be root", async () => {
  if (Deno.uid() !== 0) return;
  await using folder = await TempFolder.create();
  const error = await rejection(start(folder.path));
  assert(error instanceof ConfigError, `${error}`);
  assertStringIncludes(error.message, "belongs to root");
});

test("a durable session in a container outlives its host, its client and its connection", async () => {
  await using folder = await ownWorkspace();
  const { path } = folder;
  const executor = await start(path, { durable: { idleMs: 120_000 } });
  const { sessionId: id = "" } = executor;
  await useSession(executor);
  await executor.execute("a = 40");
  const [own = ""] = await containers(path);
  const cut = async () => {
    for (const pid of await processesWith("exec\0--interactive\0ipybox-")) {
      Deno.kill(pid, "SIGKILL");
    }
  };
  await cut();
  assertEquals((await executor.execute("a + 2")).text, "42");
  await executor.detach({ code: "import time; time.sleep(1); a + 3" });
  await cut();
  assertEquals(await containers(path), [own]);

  const attached = await CodeExecutor.attach(id, { log: silentLogger });
  for await (const event of attached.resume()) {
    if (event.type === "result") assertEquals(event.result.text, "43");
  }
  await useSession(attached);
  await attached[Symbol.asyncDispose]();
  await until("the container is gone", async () => (await containers(path)).length === 0);
});

test("a durable session whose container was killed is lost, and leaves nothing", async () => {
  await using folder = await ownWorkspace();
  const { path } = folder;
  await using executor = await start(path, { durable: { idleMs: 120_000 } });
  const { sessionId: id = "" } = executor;
  const running = rejection(executor.execute("import time; time.sleep(600)"));
  const [own = ""] = await containers(path);
  await engine("kill", own);
  const error = await running;
  assert(error instanceof KernelDiedError, `${error}`);
  await until("it is lost", async () => {
    const [listed] = await listSessions(path);
    return listed?.id === id && listed.status === undefined;
  });
  assertEquals(await containers(path), []);
  await endDurable(id);
});

/** What code can do on Linux before 6.12, which has no rule for signals to other processes of a user. */
const HOLD_ON = `
import os, signal
def commands():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline") as file: yield int(pid), file.read()
        except OSError: pass
os.kill(next(pid for pid, command in commands() if "launcher.py" in command), signal.SIGKILL)
while True:
    for pid, command in commands():
        if command.startswith("sh\\0-c\\0chmod"): os.kill(pid, signal.SIGSTOP)
`;

test("a container ends with its durable session, though code in it stops what removes its files", async () => {
  await using folder = await ownWorkspace();
  const { path } = folder;
  await using executor = await start(path, { durable: { idleMs: 600_000 } });
  const [own = ""] = await containers(path);
  const running = rejection(executor.execute("import time; time.sleep(600)"));
  const python = "/opt/ipybox/python/bin/python3";
  await engine("exec", "--detach", own, python, "-c", HOLD_ON);
  assert(await running instanceof KernelDiedError);
  await until("the container is gone", async () => !(await containers(path)).includes(own));
});

test("a container that nobody comes to ends itself", async () => {
  await using folder = await ownWorkspace();
  const { path } = folder;
  const executor = await start(path, { durable: { idleMs: 1000 } });
  await executor.detach();
  await until("the container is gone", async () => (await containers(path)).length === 0);
  await until("it is forgotten", async () => (await listSessions(path)).length === 0);
});

/** Starts a container while a command does what code of another session would do at the worst moment. */
async function startAmid(path: string, swap: string): Promise<unknown> {
  await using tools = await TempFolder.create();
  const { text: real } = await which(engineName);
  const script = `#!/bin/sh\ncase $1 in run) ${swap};; esac\nexec ${real} "$@"\n`;
  await Deno.writeTextFile(`${tools.path}/${engineName}`, script, { mode: 0o755 });
  const before = Deno.env.get("PATH") ?? "";
  Deno.env.set("PATH", `${tools.path}:${before}`);
  try {
    return await rejection(start(path));
  } finally {
    Deno.env.set("PATH", before);
  }
}

test("a container starts with nothing that took a folder's place while it was made", async () => {
  await using folder = await ownWorkspace();
  await using other = await ownWorkspace();
  const { path } = folder;
  await Deno.mkdir(`${path}/sub`);
  await Deno.writeTextFile(`${path}/sub/.env`, "SECRET=1");
  await Deno.writeTextFile(`${other.path}/.env`, "SECRET=2");
  const error = await startAmid(
    path,
    `mv '${path}/sub' '${path}/moved'; ln -s '${other.path}' '${path}/sub'`,
  );
  assertStringIncludes(`${error}`, "/workspace/sub was replaced while it was mounted");
  assertEquals(await containers(path), []);
});

test("nor with what took the place of the whole workspace", async () => {
  await using folder = await ownWorkspace();
  await using fake = await ownWorkspace();
  await using other = await ownWorkspace();
  const { path } = folder;
  await Deno.mkdir(`${fake.path}/.ipybox`);
  await Deno.symlink(other.path, `${fake.path}/mcptools`);
  const error = await startAmid(
    path,
    `mv '${path}' '${path}.moved'; ln -s '${fake.path}' '${path}'`,
  );
  await Deno.remove(path);
  await Deno.rename(`${path}.moved`, path);
  assertStringIncludes(`${error}`, "was replaced while it was mounted");
  assertEquals(await containers(path), []);
});

async function which(program: string): Promise<{ readonly text: string }> {
  const { stdout } = await new Deno.Command("which", { args: [program] }).output();
  return { text: new TextDecoder().decode(stdout).trim() };
}
