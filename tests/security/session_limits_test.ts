/** What bounds the processes of a session together, and not only each. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { KernelDiedError } from "../../src/errors.ts";
import { checkSessionLimits } from "../../src/sandbox/preflight.ts";
import { TestExecutor } from "../support/executor.ts";
import { testIf } from "../support/skip.ts";

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

testIf(state === "ok", detail, {
  name: "processes of a session cannot take more memory together than one may",
  fn: async () => {
    await using started = await TestExecutor.start({
      limits: { memoryBytes: 1536 * 2 ** 20 },
      spareKernel: false,
    });
    const text = await started.executor.execute(MANY, { timeoutMs: 60_000 }).then(
      (result) => result.text ?? "",
      (error: unknown) => {
        assert(error instanceof KernelDiedError, String(error));
        return "died";
      },
    );
    assertMatch(text, /-9|died/); // one of them was killed for it, or the kernel was
    assertEquals((await started.executor.execute("1 + 1")).text, "2");
  },
});

testIf(state === "ok", detail, {
  name: "the groups of a session are gone with it",
  fn: async () => {
    const before = await groups();
    {
      await using started = await TestExecutor.start({ spareKernel: false });
      assertEquals((await started.executor.execute("1")).text, "1");
      assert((await groups()).length > before.length);
    }
    const after = new Set(await groups());
    assertEquals(before.filter((name) => !after.has(name)), []);
  },
});

/** The control groups that sessions on this machine have, whoever runs them. */
async function groups(): Promise<string[]> {
  const { stdout } = await new Deno.Command("find", {
    args: ["/sys/fs/cgroup", "-type", "d", "-name", "ipybox-*"],
    stderr: "null",
  }).output();
  return new TextDecoder().decode(stdout).split("\n").filter((line) => line !== "");
}
