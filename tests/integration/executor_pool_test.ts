import { assert, assertEquals, assertNotEquals, assertRejects } from "@std/assert";
import { silentLogger } from "../../src/base/log.ts";
import { CodeExecutor } from "../../src/executor/code_executor.ts";
import { ExecutorPool } from "../../src/executor/pool.ts";
import { until } from "../support/wait.ts";
import { processesWith } from "../support/processes.ts";
import { testPython } from "../support/python.ts";
import { TempFolder } from "../support/temp_folder.ts";

const PID = "import os; os.getpid()";

/** A pool of executors without the sandbox, in which they could not tell their processes' ids. */
class TestPool implements AsyncDisposable {
  private constructor(
    readonly pool: ExecutorPool,
    /** Where the sessions' private folders are, which the command lines of kernels name. */
    readonly temporary: TempFolder,
    readonly started: readonly CodeExecutor[],
  ) {}

  static async start(size: number): Promise<TestPool> {
    const temporary = await TempFolder.create();
    const started: CodeExecutor[] = [];
    const pool = await ExecutorPool.start({
      size,
      log: silentLogger,
      start: async (signal) => {
        const workspace = await Deno.makeTempDir({ dir: temporary.path });
        const options = { python: testPython(), sandbox: false, log: silentLogger, signal };
        const executor = await CodeExecutor.start({
          ...options,
          workspace,
          kernelEnv: { POOL: temporary.path },
        });
        started.push(executor);
        return executor;
      },
    });
    return new TestPool(pool, temporary, started);
  }

  /** The kernels that run, and which of them nobody has used. */
  async kernels(): Promise<number[]> {
    const found: number[] = [];
    for (const pid of await processesWith("launcher/kernel.py")) {
      const environment = await Deno.readTextFile(`/proc/${pid}/environ`).catch(() => "");
      if (environment.includes(`POOL=${this.temporary.path}\0`)) found.push(pid);
    }
    return found;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.pool[Symbol.asyncDispose]();
    await this.temporary[Symbol.asyncDispose]();
  }
}

Deno.test("ExecutorPool hands out executors whose kernels ran before", async (t) => {
  await using test = await TestPool.start(1);
  const { pool, started } = test;

  await t.step("each once", async () => {
    const [ready] = await test.kernels();
    await using one = await pool.acquire();
    await using other = await pool.acquire();
    assertEquals(one, started[0]);
    assertEquals(Number((await one.execute(PID)).text), ready);
    assertNotEquals(one.workspace, other.workspace);
    await one.execute("secret = 1");
    assertEquals((await other.execute("'secret' in globals()")).text, "False");
  });

  await t.step("and no spare kernel before code runs", async () => {
    await until("one waits alone", async () => (await test.kernels()).length === 1);
  });

  await t.step("but not one that died", async () => {
    const count = started.length;
    const [dead] = await test.kernels();
    assert(dead !== undefined);
    Deno.kill(dead, "SIGKILL");
    await until("it is gone", async () => !(await test.kernels()).includes(dead));
    await using executor = await pool.acquire();
    assert(started.indexOf(executor) >= count);
    assertNotEquals(Number((await executor.execute(PID)).text), dead);
  });

  await t.step("and one that is taken outlives the pool, the others do not", async () => {
    await using mine = await pool.acquire();
    await pool[Symbol.asyncDispose]();
    await mine.execute("1");
    await mine[Symbol.asyncDispose]();
    await until("none is left", async () => (await test.kernels()).length === 0);
    await assertRejects(() => pool.acquire(), DOMException, "The pool was closed");
  });
});

Deno.test("An executor says whether it can run code", async () => {
  await using workspace = await TempFolder.create();
  const options = { python: testPython(), sandbox: false, log: silentLogger };
  await using executor = await CodeExecutor.start({ ...options, workspace: workspace.path });
  assertEquals(await executor.isReady(), true);
  for await (
    const event of executor.stream("print(1, flush=True); input()", { events: ["chunk", "input"] })
  ) {
    if (event.type !== "input") continue;
    assertEquals(await executor.isReady(), false);
    event.request.answer("");
  }
  assertEquals(await executor.isReady(), true);
  const pid = Number((await executor.execute(PID)).text);

  Deno.kill(pid, "SIGSTOP");
  assertEquals(await executor.isReady(), false);
  Deno.kill(pid, "SIGCONT");
  await until("it answers again", () => executor.isReady());
  Deno.kill(pid, "SIGKILL");
  await until("its end is known", async () => !await executor.isReady());
  await assertRejects(() => executor.execute("1"));
  await executor[Symbol.asyncDispose]();
  assertEquals(await executor.isReady(), false);
});

Deno.test("ExecutorPool.start() says why there can be none", async () => {
  await assertRejects(
    () => ExecutorPool.start({ start: () => Promise.reject(new Error("no kernel")) }),
    Error,
    "no kernel",
  );
  const start = () => CodeExecutor.start();
  await assertRejects(() => ExecutorPool.start({ size: 0, start }), RangeError, "above 0");
});
