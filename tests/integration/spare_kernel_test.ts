import { assertEquals, assertInstanceOf, assertMatch, assertNotEquals } from "@std/assert";
import { KernelDiedError } from "../../src/base/errors.ts";
import { KernelClient } from "../../src/kernel/client.ts";
import type { KernelGateway } from "../../src/kernel/gateway.ts";
import { SHORT_LIFE_MS } from "../../src/kernel/host.ts";
import { processesWith, untilNoneWith } from "../support/processes.ts";
import { ReadyCount } from "../support/ready_count.ts";
import { rejection, until } from "../support/wait.ts";
import { TestGateway, TestKernel } from "../support/kernel.ts";

const PID = "import os; os.getpid()";

Deno.test("A spare kernel is kept ready", async (t) => {
  const log = new ReadyKernels();
  await using kernel = await TestKernel.start({
    ...{ spareKernel: true, restoreWorkingDir: true, log },
    interruptGraceMs: 100,
  });
  const { client, gateway } = kernel;

  await t.step("and takes over in a reset, set up like the first", async () => {
    const spare = await log.spare(gateway, 2, Number(await kernel.text(PID)));
    await client.execute("a = 1").result;
    await client.reset();
    assertEquals(Number(await kernel.text(PID)), spare);
    assertEquals(await kernel.text("'a' in globals()"), "False");
    const cwd = await kernel.text("os.chdir('/')");
    assertEquals(cwd, `[ipybox] cwd reset to ${kernel.workspace}`);
  });

  await t.step("and takes over from a kernel that died", async () => {
    const spare = await log.spare(gateway, 3, Number(await kernel.text(PID)));
    await client.execute("os._exit(1)").result.catch(() => {});
    assertEquals(Number(await kernel.text(PID)), spare);
  });

  await t.step("and takes over from a kernel that cannot be interrupted", async () => {
    const spare = await log.spare(gateway, 4, Number(await kernel.text(PID)));
    const execution = client.execute(
      "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); print(1, flush=True)\n" +
        "while True: time.sleep(1)",
    );
    for await (const _ of execution) break;
    assertEquals(await execution.state, "lost");
    assertEquals(Number(await kernel.text(PID)), spare);
  });

  await t.step("and another one when it dies", async () => {
    const current = Number(await kernel.text(PID));
    const dead = await log.spare(gateway, 5, current);
    // It must have lived a while, or it would not be replaced.
    await new Promise((resolve) => setTimeout(resolve, SHORT_LIFE_MS + 100));
    Deno.kill(dead, "SIGKILL");
    const next = await log.spare(gateway, 6, current);
    assertNotEquals(next, dead);
    await client.reset();
    assertEquals(Number(await kernel.text(PID)), next);
  });

  await t.step("and has only its own last words when it dies", async () => {
    await log.spare(gateway, 7, Number(await kernel.text(PID))); // before the current one dies
    const words = [];
    for (const code of ["import os; os.abort()", "import ctypes; ctypes.string_at(0)"]) {
      const error = await rejection(client.execute(code).result);
      assertInstanceOf(error, KernelDiedError);
      words.push(error.stderrTail);
    }
    assertMatch(words[0] ?? "", /Fatal Python error: Aborted/);
    assertMatch(words[1] ?? "", /^Fatal Python error: Segmentation fault/);
  });

  await t.step("and resets that come before it is ready work, too", async () => {
    for (let round = 0; round < 2; round++) {
      await client.execute("a = 1").result;
      await client.reset();
      assertEquals(await kernel.text("'a' in globals()"), "False");
    }
  });
});

Deno.test("A spare kernel comes after the first code, and goes with its client", async (t) => {
  await using own = await TestGateway.start();
  const { gateway, workspace } = own;
  const start = async (spareKernel: boolean, log?: ReadyKernels) => {
    const options = { gateway, imagesDir: `${workspace}/images`, spareKernel, log };
    return await KernelClient.start(options);
  };

  await t.step("it is started once code has run, and ends with its client", async () => {
    const log = new ReadyKernels();
    await using client = await start(true, log);
    await client.reset();
    assertEquals(log.count, 2);
    await client.execute("1").result;
    await until("there is a spare kernel", () => log.count === 3);
    await client[Symbol.asyncDispose]();
    await untilNoneWith(`${gateway.sessionDir}/launcher/kernel.py`);
  });

  await t.step("one that still starts ends with its client, too", async () => {
    await using client = await start(true);
    await client.execute("1").result;
    await until("a spare kernel starts", async () => (await kernels(gateway)).length === 2);
    await client[Symbol.asyncDispose]();
    // The gateway may still be at the end of one that it had hardly started.
    await untilNoneWith(`${gateway.sessionDir}/launcher/kernel.py`);
  });

  await t.step("without spareKernel there is one kernel, and a reset starts the next", async () => {
    const log = new ReadyKernels();
    await using client = await start(false, log);
    for (const count of [1, 2]) {
      const current = Number((await client.execute(PID).result).text);
      await until("the others have ended", async () => (await kernels(gateway)).length === 1);
      assertEquals([log.count, await kernels(gateway)], [count, [current]]);
      if (count === 1) await client.reset();
    }
  });
});

/** The processes of a gateway's kernels. */
async function kernels(gateway: KernelGateway): Promise<number[]> {
  return await processesWith(`${gateway.sessionDir}/launcher/kernel.py`);
}

/** Counts the kernels that got ready. */
class ReadyKernels extends ReadyCount {
  /** Waits for the spare one of `count` kernels, and gives its process id. */
  async spare(gateway: KernelGateway, count: number, current: number): Promise<number> {
    await this.reached(count);
    let others: number[] = [];
    // What was replaced before may take a moment to end.
    await until("there is one spare kernel", async () => {
      others = (await kernels(gateway)).filter((pid) => pid !== current);
      return others.length === 1;
    });
    return others[0]!;
  }
}
