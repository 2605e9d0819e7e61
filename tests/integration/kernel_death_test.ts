import { assertEquals, assertInstanceOf, assertMatch } from "@std/assert";
import { KernelDiedError } from "../../src/base/errors.ts";
import { rejection } from "../support/wait.ts";
import { TestKernel, untilText } from "../support/kernel.ts";

/** The kernel's messages leave it on a thread of their own, so it lives on until this has come. */
const PRELUDE = `import os, time
a = 1
print('before', flush=True)
while not os.path.exists('seen'): time.sleep(0.01)
os.remove('seen')
`;

Deno.test("A kernel that dies is noticed and replaced", async (t) => {
  await using kernel = await TestKernel.start({ restoreWorkingDir: true });
  const { client } = kernel;

  for (
    const [name, code, how, words] of [
      [
        "a segmentation fault",
        "import ctypes; ctypes.string_at(0)",
        /it crashed \(SIGSEGV\)/,
        /^Fatal Python error: Segmentation fault\n[^]*line \d+ in string_at\n.*line 6 in <module>\n$/,
      ],
      ["os._exit", "os._exit(3)", /it exited with code 3$/, /^$/],
      [
        "SIGKILL",
        "os.kill(os.getpid(), 9)",
        /\(SIGKILL\).*(ran out of memory|memory ran out)$/,
        /^$/,
      ],
      [
        "os.abort",
        "os.abort()",
        /it aborted \(SIGABRT\)/,
        /^Fatal Python error: Aborted\n[^]*line 6 in <module>\n$/,
      ],
      [
        "os.abort after last words of C code",
        "os.write(2, b'no memory\\n'); os.abort()",
        /it aborted \(SIGABRT\)/,
        /^no memory\n|\nno memory\n/,
      ],
    ] as const
  ) {
    await t.step(name, async () => {
      const execution = client.execute(`${PRELUDE}${code}`);
      await untilText(execution, "before");
      await Deno.writeTextFile(`${kernel.workspace}/seen`, "");
      const error = await rejection(execution.result);
      assertInstanceOf(error, KernelDiedError);
      assertMatch(error.message, /kernel died and its variables are lost/);
      assertMatch(error.message, how);
      assertMatch(error.stderrTail, words);
      assertEquals(await execution.state, "lost");
      assertEquals(execution.partial().text, "before");
      assertEquals(await kernel.text("'a' in globals()"), "False");
      const cwd = await kernel.text("import os; os.chdir('/')");
      assertEquals(cwd, `[ipybox] cwd reset to ${kernel.workspace}`);
    });
  }
});

Deno.test("A connection that breaks is an error at once", async () => {
  await using kernel = await TestKernel.start();
  // A message that is larger than what Deno accepts from a WebSocket, sent past all care.
  const code =
    "get_ipython().kernel.session.pack = __import__('jupyter_client').session.json_packer" +
    "\n'x' * 70_000_000";
  const error = await rejection(kernel.client.execute(code).result);
  assertInstanceOf(error, KernelDiedError);
  assertMatch(error.message, /connection to the kernel was lost/);
  assertEquals(await kernel.text("1 + 1"), "2");
});
