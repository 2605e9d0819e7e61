/** What executed code may take, and that errors say so. */
import { assert, assertEquals, assertInstanceOf, assertMatch } from "@std/assert";
import { CodeExecutionError, KernelDiedError } from "../../src/base/errors.ts";
import type { ResourceLimits } from "../../src/sandbox/limits.ts";
import { TestExecutor } from "../support/executor.ts";
import { rejection } from "../support/wait.ts";
import { testIf } from "../support/skip.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { runUnprivileged, whyNotUnprivileged } from "../support/unprivileged.ts";

/** Code that hits a limit, and the exception that it gets. */
const HITS: readonly { limit: keyof ResourceLimits; code: string; ename: string }[] = [
  { limit: "memoryBytes", code: "x = bytearray(4 << 30)", ename: "MemoryError" },
  {
    limit: "memoryBytes",
    // For real, bit by bit, until there is no room for a traceback either.
    code:
      "x = []\nfor size in (64 << 20, 1 << 16, 1 << 9):\n  try:\n    while True: x.append(bytearray(size))\n" +
      "  except MemoryError: pass\nx.append(bytearray(1 << 20))",
    ename: "MemoryError",
  },
  {
    limit: "memoryBytes",
    code: "import numpy; numpy.ones(1 << 30)",
    ename: "MemoryError",
  },
  {
    limit: "memoryBytes", // before that of processes: each thread has a stack
    code: "import threading\ngate = threading.Event()\ntry:\n  for _ in range(1000):\n" +
      "    threading.Thread(target=gate.wait).start()\nfinally: gate.set()",
    ename: "RuntimeError",
  },
  {
    limit: "fileBytes",
    code: "with open('large', 'wb') as file: file.write(bytes(2_000_000))",
    ename: "OSError",
  },
  {
    limit: "fileBytes",
    code: "import subprocess; subprocess.run(['dd', 'if=/dev/zero', 'of=large', 'bs=2M', " +
      "'count=1'], check=True, capture_output=True)",
    ename: "CalledProcessError",
  },
  {
    limit: "cpuSeconds",
    code: "import subprocess, sys\n" +
      "subprocess.run([sys.executable, '-c', 'while True: pass'], check=True)",
    ename: "CalledProcessError",
  },
];

for (const sandbox of [true, false]) {
  Deno.test(`A limit that is hit is named (${sandbox ? "" : "no "}sandbox)`, async (t) => {
    const limits = { memoryBytes: 0.75 * 1024 ** 3, fileBytes: 1_000_000, cpuSeconds: 3 };
    await using test = await TestExecutor.start({ sandbox, limits });
    const { executor } = test;

    // The same launcher sets them without the sandbox, too.
    for (const { limit, code, ename } of sandbox ? HITS : HITS.slice(0, 1)) {
      await t.step(`${limit}: ${ename}`, async () => {
        const error = await rejection(executor.execute(`a = 1\n${code}`));
        assertInstanceOf(error, CodeExecutionError);
        assertEquals(error.ename, ename);
        assert(error.message.includes(`Raise it with limits.${limit}, or`), error.message);
        assertEquals(executor.state, "kept");
        assertEquals((await executor.execute("x = None; a")).text, "1");
      });
    }

    await t.step("memoryBytes: a child's", async () => {
      const { text } = await executor.execute("!python -c 'bytearray(4 << 30)'");
      assertMatch(text ?? "", /^MemoryError\n\[ipybox\] .*limits\.memoryBytes/m);
    });

    if (!sandbox) return; // as above
    await t.step("a process has so many open files at most, by default", async () => {
      const code = "import resource; resource.getrlimit(resource.RLIMIT_NOFILE)";
      assertEquals((await executor.execute(code)).text, "(2048, 2048)");
    });

    await t.step("cpuSeconds: the kernel's own", async () => {
      const error = await rejection(executor.execute("while True: pass", { timeoutMs: 30_000 }));
      assertInstanceOf(error, KernelDiedError);
      assertEquals(error.signal, "SIGXCPU");
      assertMatch(
        error.message,
        /3 s of CPU time per process. Raise it with limits.cpuSeconds/,
      );
      assertEquals(executor.state, "lost");
      assertEquals((await executor.execute("1 + 1")).text, "2");
    });
  });
}

Deno.test("Without limits there are none", async () => {
  await using test = await TestExecutor.start({ limits: false });
  const code = "import resource\n" +
    "[resource.getrlimit(getattr(resource, f'RLIMIT_{n}'))[0] for n in ['DATA', 'CPU', 'CORE']]";
  assertEquals((await test.executor.execute(code)).text, "[-1, -1, 0]");
});

const noUser = await whyNotUnprivileged();

// The system does not limit the number of root's processes.
testIf(noUser === undefined, noUser ?? "", {
  name: "A limit of processes that is hit is named",
  fn: async () => {
    await using folder = await TempFolder.create();
    const program = new URL("../fixtures/process_limit.ts", import.meta.url).pathname;
    const printed = await runUnprivileged(program, folder.path);
    assertMatch(printed, /BlockingIOError: \[Errno 11\]/);
    assertMatch(printed, /A limit applies: 60 processes.*limits\.processes/);
    assertMatch(printed, /^afterwards 2$/m);
  },
});
