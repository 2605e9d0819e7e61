/** Attacks of a kernel's code on the kernel that replaces it. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { lstatIfPresent } from "../../src/files/safe.ts";
import { until } from "../support/wait.ts";
import { TestExecutor } from "../support/executor.ts";
import { rawServer } from "../support/mcp.ts";
import { processesWith } from "../support/processes.ts";
import { ReadyCount } from "../support/ready_count.ts";
import { runPython } from "../support/run_python.ts";
import { testIf } from "../support/skip.ts";
import { stepsOf } from "../support/steps.ts";

/** Plants code wherever a Python program of this user might run or obey it. */
const PLANT = `
import glob, os, pathlib, sys
evil = "import os; print('IMPLANT', flush=True); IMPLANT = 1; os.environ['IMPLANT'] = '1'"
def plant(path):
    try:
        pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
        pathlib.Path(path).write_text(evil)
    except OSError: pass
root = pathlib.Path(os.environ["HOME"])
homes = {root, root.parent, root.parent.parent, *root.parent.glob("*"), *root.parent.parent.glob("*")}
for home in homes:
    if not home.is_dir(): continue
    for profile in (".ipython", "ipython"):
        plant(home / profile / "profile_default/startup/00-implant.py")
        plant(home / profile / "profile_default/ipython_kernel_config.py")
        plant(home / profile / "profile_default/ipython_config.py")
    for site in ("sitecustomize.py", "usercustomize.py", "implant.pth"):
        version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        plant(home / ".local/lib" / version / "site-packages" / site)
    plant(home / "matplotlib/matplotlibrc")
    plant(home / "tmp/left")
`;
const STATE = `
import os
print("IMPLANT" in globals() or "IMPLANT" in os.environ, os.path.lexists(os.environ["HOME"] + "/matplotlib/matplotlibrc"))
`;

/** Starts processes that leave the kernel's session. */
const linger = (script: string) => `
import os, subprocess
subprocess.Popen(["setsid", "-f", "sh", "-c", ${JSON.stringify(script)}])
subprocess.Popen(["sh", "-c", ${JSON.stringify(script)}], start_new_session=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0: os.execvp("sh", ["sh", "-c", ${JSON.stringify(script)}])
    os._exit(0)
`;

/** Resets a kernel whose code has planted files and started processes, and looks for either. */
async function showReset(
  { executor, workspace }: TestExecutor,
  kernels?: ReadyCount,
): Promise<void> {
  const script = `while :; do sleep 1; : ${workspace}; done`;
  const running = async () => await processesWith(`: ${workspace}; done`);
  // The spare kernel that takes over at the second reset started after the first planting.
  for (let round = 0; round < (kernels ? 2 : 1); round++) {
    await executor.execute(PLANT + linger(script));
    await until("they run", async () => (await running()).length === 3);
    await kernels?.reached(2 + round);
    await executor.execute(PLANT);
    await executor.reset();
    assertEquals(await running(), []);
    assertEquals((await executor.execute(STATE)).text?.trim(), "False False");
  }
}

/** What code may do to the kernel that will replace its own. */
const SPARE = `
import os, signal, time
def spares():
    for name in os.listdir("/proc"):
        if not name.isdigit() or name == os.readlink("/proc/self"): continue
        try:
            if "kernel.py" in open(f"/proc/{name}/cmdline").read(): yield int(name)
        except OSError: pass
def number(pid):  # in our namespace, which need not be that of /proc
    lines = {name: [line.split() for line in open(f"/proc/{name}/status") if "NSpid" in line][0] for name in ("self", pid)}
    return int(lines[pid][len(lines["self"]) - 1])
deadline = time.time() + 30
while not (found := list(spares())) and time.time() < deadline: time.sleep(0.01)
[spare] = found
for what, attempt in {
    "environ": lambda: open(f"/proc/{spare}/environ").read(),
    "memory": lambda: open(f"/proc/{spare}/mem", "r+b"),
    "descriptors": lambda: os.listdir(f"/proc/{spare}/fd") and os.readlink(f"/proc/{spare}/fd/0"),
    "signal": lambda: os.kill(number(spare), signal.SIGSTOP),
    "own signal": lambda: os.kill(os.getpid(), 0),
}.items():
    try: attempt(); print(what, "works")
    except OSError as error: print(what, "refused")
keys = [os.path.join(folder, name) for folder, _, names in os.walk(os.environ["HOME"] + "/../..")
        for name in names if name.startswith("kernel-") and name.endswith(".json")]
print("keys", keys)
os.makedirs("a"); os.makedirs("b"); open("a/file", "w").close(); os.rename("a/file", "b/file")
`;

/** Has the gateway, where it can, and the kernel open hardly any files. */
const starve = (script: string, sandbox: boolean) => `
import os, resource, subprocess, time
subprocess.Popen(["setsid", "-f", "sh", "-c", ${JSON.stringify(script)}])
time.sleep(1)
def parent(pid):
    return int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
def number(pid):  # in our namespace, which need not be that of /proc
    return int([line.split() for line in open(f"/proc/{pid}/status") if "NSpid" in line][0][-1])
gateway = parent("self")
for pid in (number(gateway), number(parent(gateway)))[:${sandbox ? 2 : 1}]:
    try: resource.prlimit(pid, resource.RLIMIT_NOFILE, (4, 4)); print("limited")
    except PermissionError: print("refused")
resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
`;

/** Resets a kernel whose code has starved what it can. */
async function showStarved(
  { executor, workspace }: TestExecutor,
  sandbox: boolean,
): Promise<void> {
  const script = `while :; do sleep 1; : ${workspace}; done`;
  const { text } = await executor.execute(starve(script, sandbox));
  const outcome = sandbox ? ["refused", "refused"] : ["limited"];
  assertEquals(text?.trim().split("\n"), [...outcome, "512"]);
  for (let round = 0; round < (sandbox ? 1 : 2); round++) {
    await executor.reset();
    const fresh = await executor.execute(
      "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 512)",
    );
    assertEquals(fresh.text?.trim(), "True");
    assertEquals(await processesWith(`: ${workspace}; done`), []);
  }
}

/** The folders on the way to ipybox's programs and to Python that code could move elsewhere and back. */
const MOVED = `
import os, sys
ways = [os.path.dirname(os.path.dirname(os.environ["HOME"])), sys.executable, sys.prefix, sys.base_prefix]
folders = set()
for path in ways:
    while path != "/":
        if os.path.isdir(path): folders.add(path)
        path = os.path.dirname(path)
moved = []
for path in sorted(folders):
    try:
        os.rename(path, path + ".moved")
        os.rename(path + ".moved", path)
        moved.append(path)
    except OSError: pass
print(moved)
`;

Deno.test("L4: code leaves nothing to the kernel that replaces its own, without a spare kernel", async (t) => {
  const step = stepsOf(t);
  await using test = await TestExecutor.start();
  const { executor } = test;

  await step("it cannot put its programs in the place of those of the next kernel", async () => {
    assertEquals((await executor.execute(MOVED)).text?.trim(), "[]");
  });

  await step("nothing that it wrote to its home runs, and no process outlives it", async () => {
    await showReset(test);
  });

  // Without a sandbox it can, see below.
  await step("it cannot starve its gateway of descriptors, and is ended", async () => {
    await showStarved(test, true);
  });
});

Deno.test("L4: code leaves nothing to the kernel that replaces its own, with a spare kernel", async (t) => {
  const step = stepsOf(t);
  const kernels = new ReadyCount();
  await using test = await TestExecutor.start({ spareKernel: true, log: kernels });
  const { executor, workspace } = test;

  await step("nothing that it wrote to its home runs, and no process outlives it", async () => {
    await showReset(test, kernels);
  });

  await step("it neither traces nor signals it", async () => {
    const { text } = await executor.execute(SPARE, { timeoutMs: 60_000 });
    const signal = Number(Deno.osRelease().split(".")[0]) >= 7 ||
      Deno.osRelease().localeCompare("6.12", undefined, { numeric: true }) >= 0;
    assertEquals(
      text?.trim().split("\n"),
      [
        "environ refused",
        "memory refused",
        "descriptors refused",
        `signal ${signal ? "refused" : "works"}`,
        "own signal works",
        "keys []",
      ],
    );
  });

  await step("what it has not written yet is written", async () => {
    await executor.execute("file = open('kept', 'w'); file.write('all of it')");
    await executor.execute(
      "x = [open('kept in a cycle', 'w')]; x[0].write('this, too'); x.append(x)",
    );
    await executor.reset();
    assertEquals(await Deno.readTextFile(`${workspace}/kept`), "all of it");
    assertEquals(await Deno.readTextFile(`${workspace}/kept in a cycle`), "this, too");
    const again = await executor.execute(
      "%store?\nimport os; os.makedirs(os.environ['TMPDIR'], exist_ok=True)",
    );
    assert(again.text !== undefined);
    assertStringIncludes(`${(await executor.execute("x = 7\n%store x\nprint('ok')")).text}`, "ok");
  });

  await step("no file of the workspace runs before code that imports it", async () => {
    for (const name of ["sitecustomize", "usercustomize", "code", "difflib", "random", "sqlite3"]) {
      await Deno.writeTextFile(`${workspace}/${name}.py`, `open("ran", "w").close()\n1/0\n`);
    }
    await executor.reset();
    await executor.reset(); // this one has surely started after that
    await executor.check("undefined_name");
    const { text } = await executor.execute(
      "import sys; print(sys.path[0] == '', 'random' in sys.modules)",
    );
    assertEquals(text?.trim(), "True True");
    assertEquals(await lstatIfPresent(`${workspace}/ran`), undefined);
  });
});

// In the sandbox code cannot do that; without one a gateway that fails must not stay.
Deno.test("L4: code that starves its gateway of descriptors is ended by a reset", async () => {
  await using test = await TestExecutor.start({ sandbox: false });
  await showStarved(test, false);
});

for (const bubblewrap of [true, false]) {
  const where = bubblewrap ? "behind bubblewrap" : "where code could change ipybox's programs";
  Deno.test(`L4: what code wrote beside modules elsewhere does not run after a reset, ${where}`, async () => {
    await using test = await TestExecutor.start({
      placement: { type: "command", command: ["/usr/bin/env"], bubblewrap },
      sandbox: bubblewrap,
    });
    const { executor } = test;
    if (bubblewrap) assertEquals((await executor.execute(MOVED)).text?.trim(), "[]");
    await executor.registerServer("raw", rawServer());
    const planted = `
import os, pathlib, builtins
runtime, modules = (pathlib.Path(path) for path in os.environ["PYTHONPATH"].split(":")[:2])
def seen():
    names = sorted(path.name for path in modules.iterdir()) + sorted(path.name for path in (modules / "mcptools").iterdir() if path.name == "evil.py")
    return names, hasattr(builtins, "IMPLANT"), str(runtime)
`;
    const look = async () => (await executor.execute(`${planted}\nprint(seen())`)).text ?? "";
    const before = await look();
    assertStringIncludes(before, "(['mcptools'], False, ");
    await executor.reset();
    assertEquals(await look(), before); // nothing has to be replaced for that
    await executor.execute(`${planted}
(modules / "planted.py").write_text("")
(modules / "mcptools/evil.py").write_text("")
(pathlib.Path(f"{modules}.new") / "x").mkdir(parents=True)
os.chmod(f"{modules}.new", 0)
for file in (runtime / "ipybox_runtime/kernel/__init__.py", runtime.parent / "launcher/kernel.py"):
    try:
        text = file.read_text()
        file.write_text("import builtins; builtins.IMPLANT = 1\\n" + text)
        if file.name == "kernel.py": file.write_text(text)
    except OSError: pass`);
    await executor.reset();
    const [first] = before.split(", '/");
    assertEquals((await look()).split(", '/")[0], first);
  });
}

/** A place whose sandbox is not ipybox's, with a `/tmp` in memory, as containers have it. */
async function inMemory() {
  const prefixes =
    "import os, sys; print(*map(os.path.realpath, {sys.prefix, sys.base_prefix}), sep='\\n')";
  const { stdout } = await runPython(["-c", prefixes]);
  const shown = ["/usr", "/etc/passwd", ...stdout.trim().split("\n")];
  const hidden = ["/proc/keys", "/proc/timer_list", "/proc/kallsyms"];
  return {
    type: "command",
    command: [
      ...["/usr/bin/bwrap", "--unshare-all", "--unshare-user", "--uid", "1000", "--gid", "1000"],
      ...["--die-with-parent", "--cap-drop", "ALL"],
      ...shown.flatMap((path) => ["--ro-bind", path, path]),
      ...["bin", "lib", "lib64"].flatMap((name) => ["--symlink", `usr/${name}`, `/${name}`]),
      ...["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"],
      ...hidden.flatMap((path) => ["--ro-bind", "/dev/null", path]),
      ...["--remount-ro", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--"],
    ],
  } as const;
}

/** Writes to the runtime's code without leaving a trace in its times: `implant()`, `restore()`. */
const MAPPED = `
import ast, glob, importlib.util, marshal, mmap, os, time
runtime = os.environ["PYTHONPATH"].split(":")[0]
source = f"{runtime}/ipybox_runtime/kernel/__init__.py"
compiled = importlib.util.cache_from_source(source)
before = {path: open(path, "rb").read() for path in (source, compiled)}
def put(path, data):
    fd = os.open(path, os.O_RDWR)
    with mmap.mmap(fd, 0) as mapped:
        bytes(mapped)  # reading maps its pages writable: the write is no fault, and sets no time
        mapped[:len(data)] = data
    os.close(fd)
def implant():
    doc, *_ = ast.parse(before[source]).body
    lines = before[source].split(b"\\n")[doc.end_lineno:]
    text = b"\\n".join([b"import builtins; builtins.IMPLANT = 1", *lines])
    put(source, text.ljust(len(before[source]), b"\\n"))
    put(compiled, before[compiled][:16] + marshal.dumps(compile(text, source, "exec")))
def restore():
    for path, data in before.items(): put(path, data)
times = lambda: [os.stat(path).st_ctime_ns for path in before]
`;

testIf(Deno.build.os === "linux", "mounts and mappings of Linux", {
  name:
    "L4: what code wrote through a mapping elsewhere, which sets no time, does not run after a reset",
  fn: async () => {
    const placement = await inMemory();
    for (const spareKernel of [false, true]) {
      await using test = await TestExecutor.start({ placement, spareKernel });
      const { executor } = test;
      const { text } = await executor.execute(
        `${MAPPED}\nthen = times()\nimplant()\n${spareKernel ? "time.sleep(5)\nrestore()\n" : "" // a spare kernel would have loaded it
        }print(times() == then)`,
      );
      assertEquals(text?.trim(), "True");
      await executor.reset();
      const after = await executor.execute("import builtins; print(hasattr(builtins, 'IMPLANT'))");
      assertEquals(after.text?.trim(), "False");
    }
  },
});
