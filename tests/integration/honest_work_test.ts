/** Ordinary programs do in the sandbox what they do outside of it. */
import { assertEquals } from "@std/assert";
import { checkSessionLimits } from "../../src/sandbox/prerequisites.ts";
import { TestExecutor } from "../support/executor.ts";
import { runProgram } from "../support/program.ts";
import { testIf } from "../support/skip.ts";
import { TempFolder } from "../support/temp_folder.ts";

const linux = Deno.build.os === "linux";
const hasGit = await new Deno.Command("git", { args: ["--version"] }).output()
  .then(({ success }) => success, () => false);

/** Takes what is to be run in other processes, which must be a file for some of them. */
const WORKERS = `
import sys
with open("workers.py", "w") as file:
    file.write('''
def double(number):
    return 2 * number

def fill(names):
    names["from"] = "a child"

def answer(address):
    from multiprocessing.connection import Client
    with Client(address, family="AF_UNIX") as client:
        client.send([[0.5, 1.5]])

def use(queue):
    connection = queue.get()
    connection.send("through a queue")
    connection.close()
''')
sys.path.insert(0, "")
import workers
`;

const PARALLEL = `${WORKERS}
import multiprocessing
from multiprocessing.connection import Listener
for method in ("fork", "forkserver", "spawn"):
    context = multiprocessing.get_context(method)
    with context.Pool(1) as pool:
        print(method, pool.map(workers.double, [1, 2]))
context = multiprocessing.get_context("forkserver")
with context.Manager() as manager:
    names = manager.dict()
    child = context.Process(target=workers.fill, args=(names,))
    child.start()
    child.join()
    print(dict(names))
with Listener(family="AF_UNIX") as listener:  # as torch's loaders get their batches
    child = context.Process(target=workers.answer, args=(listener.address,))
    child.start()
    with listener.accept() as connection:
        print(connection.recv())
    child.join()
ours, theirs = context.Pipe()
queue = context.Queue()
child = context.Process(target=workers.use, args=(queue,))
child.start()
queue.put(theirs)
print(ours.recv())
child.join()
`;

const TERMINAL = `
import os, pty, threading
from multiprocessing import shared_memory
memory = shared_memory.SharedMemory(create=True, size=1 << 20)
memory.buf[0] = 7
thread = threading.Thread(target=lambda: print(memory.buf[0]))
thread.start()
thread.join()
memory.close()
memory.unlink()
parent, terminal = pty.openpty()
os.write(terminal, b"a terminal")
print(os.read(parent, 99).decode())
`;

const MEMORY = `
import mmap, os, resource
with open("large", "wb") as file:
    file.truncate(12 << 30)
with open("large", "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
    print(len(mapped) >> 30, mapped[-1])
os.unlink("large")
with mmap.mmap(-1, 1 << 30) as shared:
    shared[-1] = 7
    if os.fork() == 0:
        shared[0] = 8
        os._exit(0)
    os.wait()
    print(shared[0], shared[-1])
print(resource.getrlimit(resource.RLIMIT_DATA)[0] >> 30, resource.getrlimit(resource.RLIMIT_FSIZE)[0])
try:
    bytearray(9 << 30)
except MemoryError:
    print("MemoryError")
`;

const TEMPORARY = `
import os, tempfile
print(tempfile.gettempdir())
with tempfile.TemporaryFile() as file:
    os.posix_fallocate(file.fileno(), 0, 1200 << 20)
    print(os.fstat(file.fileno()).st_blocks * 512 >= 1200 << 20)
`;

const MODES = `
import os
open("file", "w").close()
os.chmod("file", 0o777)
os.setxattr("file", "user.note", b"kept")
print(oct(os.stat("file").st_mode & 0o7777), os.getxattr("file", "user.note"))
for mode in (0o4755, 0o2755):
    try:
        os.chmod("file", mode)
        print("changed")
    except PermissionError:
        print("refused")
`;

const PRIORITY = `
import os, subprocess
with subprocess.Popen(["sleep", "60"]) as child:
    subprocess.run(["renice", "-n", "5", str(child.pid)], stdout=subprocess.DEVNULL)
    print(os.getpriority(os.PRIO_PROCESS, child.pid))
    child.kill()
`;

// A control group counts others of the session, too, and each of its processes.
const FORKS = `
import os, signal
children = []
try:
    for _ in range(500):
        pid = os.fork()
        if pid == 0:
            signal.pause()
        children.append(pid)
except OSError as error:
    print(type(error).__name__)
print(0 < len(children) < 400)
for pid in children:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
print(os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)[1])
`;

testIf(linux, "elsewhere the system decides on this", {
  name: "programs work in parallel, map large files, fill /tmp, set modes and priorities",
  fn: async (t) => {
    await using test = await TestExecutor.start({ limits: { processes: 100 } });
    const cells = {
      "over Unix sockets": [PARALLEL, [
        "fork [2, 4]",
        "forkserver [2, 4]",
        "spawn [2, 4]",
        "{'from': 'a child'}",
        "[[0.5, 1.5]]",
        "through a queue",
      ]],
      "with shared memory, and at a terminal": [TERMINAL, ["7", "a terminal"]],
      "in memory, of which each process has its own limit": [MEMORY, [
        "12 0",
        "8 7",
        "8 -1",
        "MemoryError",
      ]],
      "with modes and attributes, and none that runs as its owner": [MODES, [
        "0o777 b'kept'",
        "refused",
        "refused",
      ]],
      "at the priority that another one gives them": [PRIORITY, ["5"]],
      "in no more processes than it may have": [FORKS, ["BlockingIOError", "True", "0"]],
    } as const;
    const { detail } = await checkSessionLimits();
    for (const [name, [code, lines]] of Object.entries(cells)) {
      // The system itself does not limit the number of root's processes.
      if (code === FORKS && Deno.uid() === 0 && !detail.includes("as a whole, by")) continue;
      await t.step(name, async () => {
        const said = (await test.executor.execute(code)).text?.split("\n") ?? [];
        assertEquals(said.filter((line) => !line.startsWith("[ipybox] ")), [...lines]);
      });
    }
    await t.step("in /tmp, which is on disk", async () => {
      assertEquals((await test.executor.execute(TEMPORARY)).text, "/tmp\nTrue");
    });
    if (Deno.uid() === 0) {
      await t.step("as root, who is an ordinary user there, with archives' modes", async () => {
        const { text } = await test.executor.execute(`
import io, os, pwd, shutil, subprocess, sys, tarfile
with tarfile.open("a.tar", "w") as archive:
    info = tarfile.TarInfo("script")
    info.mode, info.uid, info.gid, info.mtime = 0o755, 4321, 4321, 12345
    archive.addfile(info, io.BytesIO())
shutil.unpack_archive("a.tar", "cell")
unpack = "import shutil; shutil.unpack_archive('a.tar', 'program')"
subprocess.run([sys.executable, "-c", unpack], check=True)
os.mkdir("gnu")
subprocess.run(["tar", "xf", "a.tar", "-C", "gnu"], check=True)
user = pwd.getpwuid(os.getuid())
print(os.getuid() != 0, user.pw_dir, os.stat(".").st_uid == user.pw_uid)
found = [os.stat(f"{folder}/script") for folder in ("cell", "program", "gnu")]
[(oct(file.st_mode), int(file.st_mtime)) for file in found]`);
        const unpacked = "('0o100755', 12345)";
        assertEquals(
          text,
          `True ${Deno.env.get("HOME")} True\n[${[unpacked, unpacked, unpacked].join(", ")}]`,
        );
      });
    }
  },
});

testIf(linux && hasGit, hasGit ? "elsewhere nothing is mounted" : "git is not installed", {
  name: "code commits beside links with names of secrets, and changes neither hooks nor settings",
  fn: async () => {
    await using folder = await TempFolder.create();
    await Deno.writeTextFile(`${folder.path}/shared`, "KEY=v");
    const workspace = `${folder.path}/workspace`;
    const git = await runProgram("git", ["init", "-q", workspace]);
    assertEquals(git.code, 0, git.stderr);
    const links = { ".env": "../shared", ".npmrc": "none", ".envrc": ".envrc" }; // to elsewhere, nowhere
    for (const [name, target] of Object.entries(links)) {
      await Deno.symlink(target, `${workspace}/${name}`);
    }
    await using test = await TestExecutor.start({ workspace });
    const { text } = await test.executor.execute(`
import os, subprocess
def attempt(act):
    try:
        return act() or "done"
    except OSError as error:
        return type(error).__name__
print(attempt(lambda: open(".git/hooks/pre-commit", "w")), attempt(lambda: open(".git/config", "a")))
print(attempt(lambda: os.rename(".git", "other")), attempt(lambda: os.rename(".git/hooks", ".git/h")))
open("file", "w").write("text")
subprocess.run(["git", "add", "file"], check=True)
subprocess.run("git -c user.name=A -c user.email=a@example.org commit -qm First".split(), check=True)
print(subprocess.run("git log --format=%s".split(), capture_output=True, text=True).stdout.strip())`);
    assertEquals(text?.split("\n"), ["OSError OSError", "OSError OSError", "First"]);
    const seen = await test.executor.execute(
      'import os; print([os.path.exists(name) for name in (".env", ".npmrc", ".envrc", "none")])',
    );
    assertEquals(seen.text, "[False, False, False, False]");
  },
});

testIf(linux && hasGit, hasGit ? "elsewhere nothing is mounted" : "git is not installed", {
  name: "git reads the repository of a worktree and of a submodule, and code writes nothing there",
  fn: async () => {
    await using folder = await TempFolder.create();
    const { path } = folder;
    const git = async (line: string, cwd = `${path}/main`) => {
      const config = "-c user.name=A -c user.email=a@example.org -c protocol.file.allow=always";
      const { code, stderr } = await runProgram("git", `${config} ${line}`.split(" "), { cwd });
      assertEquals(code, 0, stderr);
    };
    for (const name of ["main", "other"]) {
      await git(`init -q ${path}/${name}`, path);
      await git("commit -q --allow-empty -m First", `${path}/${name}`);
    }
    await git(`worktree add -q ${path}/tree`);
    await git(`submodule add -q ${path}/other sub`);
    for (const workspace of [`${path}/tree`, `${path}/main/sub`]) {
      await using test = await TestExecutor.start({ workspace });
      const { text } = await test.executor.execute(`
import subprocess
for line in ("log --format=%s", "status --short", "commit -q --allow-empty -m Second"):
    done = subprocess.run(["git", *line.split()], capture_output=True, text=True)
    print(done.returncode, done.stdout.strip(), done.stderr.strip().rpartition(": ")[2])
`);
      assertEquals(text?.trimEnd(), "0 First \n0  \n128  Read-only file system");
    }
  },
});
