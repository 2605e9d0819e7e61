/** The system kills a kernel for want of memory: for real, in a control group that is too small. */
import { assertEquals, assertInstanceOf, assertMatch } from "@std/assert";
import { KernelDiedError } from "../../src/base/errors.ts";
import { MemoryGroup } from "../support/memory_group.ts";
import { processesWith } from "../support/processes.ts";
import { rejection } from "../support/wait.ts";
import { testIf } from "../support/skip.ts";
import { TestExecutor } from "../support/executor.ts";

const LIMIT_BYTES = 256 * 1024 ** 2;

const lacking = await MemoryGroup.whyNot();

for (const sandbox of [true, false]) {
  testIf(lacking === undefined, lacking ?? "", {
    name: `A kernel that memory ran out for is told as that (${sandbox ? "" : "no "}sandbox)`,
    fn: async () => {
      await using group = await MemoryGroup.create(LIMIT_BYTES);
      await using test = await TestExecutor.start({ sandbox, spareKernel: false });
      const { executor } = test;
      const { text } = await executor.execute("import os; a = 1; print(os.environ['HOME'])");
      const [session] = (text ?? "").split("/kernels/");
      const kernels = await processesWith(`${session}/launcher/kernel.py`);
      assertEquals(kernels.length, 1); // 0 would be this process
      for (const kernel of kernels) await group.add(kernel);

      const error = await rejection(executor.execute(
        "print('before', flush=True)\nx = []\nwhile True: x.append(bytearray(b'x' * (8 << 20)))",
      ));

      assertInstanceOf(error, KernelDiedError);
      assertEquals([error.signal, error.text], ["SIGKILL", "before"]);
      assertMatch(
        error.message,
        /kernel died.*the system killed it \(SIGKILL\) because memory ran out/,
      );
      assertEquals(executor.state, "lost");
      assertEquals((await executor.execute("'a' in globals()")).text, "False");
    },
  });
}
