/** What bounds the processes of a session together, and not only each. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { listActions } from "../../src/apigen/saved_actions.ts";
import { KernelDiedError } from "../../src/base/errors.ts";
import { checkSessionLimits } from "../../src/sandbox/prerequisites.ts";
import { TestExecutor } from "../support/executor.ts";
import { testIf } from "../support/skip.ts";
import { TempFolder } from "../support/temp_folder.ts";

const { state, detail } = await checkSessionLimits();

/** Each process takes far less than it may; together they hold on to more than the session may. */
const MANY = `
import os, time
children = []
for _ in range(14):
    pid = os.fork()
    if pid == 0:
        try:
            block = bytearray(128 << 20)
            for at in range(0, len(block), 4096):
                block[at] = 1
            time.sleep(5)
        finally:
            os._exit(0)
    children.append(pid)
print([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children])
`;

/** Queues signals to itself, which it does not take. */
const SIGNALS = `
import ctypes, os, signal
number = int(signal.SIGRTMIN) + 1
signal.pthread_sigmask(signal.SIG_BLOCK, [number])
libc = ctypes.CDLL(None)
count = 0
while count < 10_000 and libc.sigqueue(os.getpid(), number, ctypes.c_void_p(0)) == 0:
    count += 1
print(count)
`;

testIf(Deno.build.os === "linux", "only Linux counts them for the user", {
  name: "a session does not take all signals that the user's programs may queue",
  fn: async () => {
    await using started = await TestExecutor.start();
    const code = `import subprocess, sys
print(subprocess.check_output([sys.executable, "-c", ${JSON.stringify(SIGNALS)}], text=True))`;
    const { text } = await started.executor.execute(code); // the kernel has threads that take them
    assert(Number(text) > 1000 && Number(text) <= 4096, text ?? "");
  },
});

testIf(state === "ok", detail, {
  name:
    "processes of a session cannot take more memory together than one may, and its groups end with it",
  fn: async () => {
    const seconds = 10_000 + Math.random(); // by which its process is known among all others
    let own: readonly string[];
    {
      await using started = await TestExecutor.start({ limits: { memoryBytes: 1536 * 2 ** 20 } });
      const text = await started.executor.execute(MANY, { timeoutMs: 60_000 }).then(
        (result) => result.text ?? "",
        (error: unknown) => {
          assert(error instanceof KernelDiedError, String(error));
          return "died";
        },
      );
      assertMatch(text, /-9|died/); // one of them was killed for it, or the kernel was
      assertEquals((await started.executor.execute("1 + 1")).text, "2");

      const code = `import subprocess\nsubprocess.Popen(["sleep", "${seconds}"]).pid > 0`;
      assertEquals((await started.executor.execute(code)).text, "True");
      own = await groupsOf(["sleep", String(seconds)]);
      assert(own.length > 0);
      assertEquals(await existing(own), own);
    }
    assertEquals(await existing(own), []);
  },
});

/** The control groups of ipybox that a process of that command line is in. */
async function groupsOf(commandLine: readonly string[]): Promise<string[]> {
  for await (const { name } of Deno.readDir("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const read = (file: string) => Deno.readTextFile(`/proc/${name}/${file}`).catch(() => "");
    if (await read("cmdline") !== commandLine.map((arg) => `${arg}\0`).join("")) continue;
    return [...new Set((await read("cgroup")).match(/ipybox-[\da-f-]+/g))];
  }
  return [];
}

/** Which of these groups there are, under any controller. */
async function existing(names: readonly string[]): Promise<string[]> {
  const { stdout } = await new Deno.Command("find", {
    args: ["/sys/fs/cgroup", "-type", "d", "-name", "ipybox-*"],
    stderr: "null",
  }).output();
  const all = new TextDecoder().decode(stdout).split("\n").map((path) => path.split("/").at(-1));
  return names.filter((name) => all.includes(name));
}

Deno.test("no more folders are looked at for saved actions than there may be actions", async () => {
  await using folder = await TempFolder.create();
  const make = async (name: string) => {
    await Deno.mkdir(`${folder.path}/gentools/${name}`, { recursive: true });
    return `${folder.path}/gentools/${name}/api.py`;
  };
  await Deno.writeTextFile(await make("first/action"), '"""Does it."""\n');
  for (let empty = 0; empty < 1000; empty++) await make(`many/empty${empty}`);
  await Deno.writeTextFile(await make("never/action"), '"""Does it."""\n');

  const names = (await listActions(folder.path)).map(({ name }) => name);

  assertEquals(names, ["first.action"]);
});
