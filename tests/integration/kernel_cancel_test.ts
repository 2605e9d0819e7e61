import {
  assert,
  assertEquals,
  assertInstanceOf,
  assertMatch,
  assertNotMatch,
  assertStrictEquals,
} from "@std/assert";
import { CodeExecutionError } from "../../src/base/errors.ts";
import { TestKernel, untilText } from "../support/kernel.ts";
import { rejection, until } from "../support/wait.ts";

const STUBBORN = `
import time
print("running", flush=True)
while True:
    try: time.sleep(60)
    except KeyboardInterrupt: pass
`;

/** A thread that interrupts the kernel at any moment, also between cells. */
const STORM = `
import asyncio, random, signal, threading, time
def storm():
    main = threading.main_thread().ident
    for _ in range(200):
        signal.pthread_kill(main, signal.SIGINT)
        time.sleep(random.random() * 0.002)
a, thread = 5, threading.Thread(target=storm, daemon=True)
`;

Deno.test("A cancelled execution ends and the kernel stays usable", async (t) => {
  await using kernel = await TestKernel.start({ interruptGraceMs: 10_000 });
  const { client } = kernel;
  await client.execute("import asyncio, signal, time; a = 5").result;

  for (
    const [name, code] of [
      ["sleeping code", "print('running', flush=True); time.sleep(60)"],
      ["computing code", "print('running', flush=True)\nwhile True: pass"],
      ["awaiting code", "print('running', flush=True); await asyncio.sleep(60)"],
      ["a shell command", "!echo running; sleep 60"],
    ] as const
  ) {
    await t.step(name, async () => {
      const controller = new AbortController();
      const execution = client.execute(code, { signal: controller.signal });
      await untilText(execution, "running");
      const reason = new Error("enough");
      controller.abort(reason);
      assertStrictEquals(await rejection(execution.result), reason);
      assertEquals(await execution.state, "kept");
      assertEquals(execution.partial().text?.split("\n")[0]?.trim(), "running");
      assertEquals(await kernel.text("a"), "5");
    });
  }

  await t.step("leaving the loop cancels, and waits until that is done", async () => {
    const execution = client.execute("print('running', flush=True); time.sleep(60)");
    for await (const chunk of execution) {
      assertEquals(chunk.text, "running\n");
      break;
    }
    assertInstanceOf(await rejection(execution.result), DOMException);
    assertEquals(await execution.state, "kept");
  });

  await t.step("cancelling before it begins runs nothing", async () => {
    const controller = new AbortController();
    const first = client.execute("time.sleep(0.2)");
    const second = client.execute("a = 6", { signal: controller.signal });
    controller.abort(new Error("never mind"));
    await rejection(second.result);
    assertEquals(await second.state, "kept");
    await first.result;
    assertEquals(await kernel.text("a"), "5");
  });

  await t.step("cancelling after its end does nothing", async () => {
    const execution = client.execute("1");
    await execution.result;
    assertEquals(await execution.cancel(), "kept");
    assertEquals((await execution.result).text, "1");
  });

  await t.step("interrupt() raises KeyboardInterrupt in the code", async () => {
    const execution = client.execute(
      "print('running', flush=True)\ntry: time.sleep(60)\nexcept KeyboardInterrupt: print('caught')",
    );
    await untilText(execution, "running");
    await client.interrupt();
    assertEquals((await execution.result).text, "running\ncaught");
    const other = client.execute("print('running', flush=True); time.sleep(60)");
    await untilText(other, "running");
    await client.interrupt();
    const error = await rejection(other.result);
    assertInstanceOf(error, CodeExecutionError);
    assertEquals(error.ename, "KeyboardInterrupt");
    const innermost = "import sys, traceback; traceback.extract_tb(sys.last_traceback)[-1].name";
    assertEquals(await kernel.text(innermost), "'<module>'"); // not the kernel's own handler
    await client.interrupt(); // nothing runs, nothing happens
  });

  await t.step("while its code is still on its way to the kernel", async () => {
    for (let round = 0; round < 8; round++) {
      const execution = client.execute("time.sleep(60)");
      await new Promise((resolve) => setTimeout(resolve, round % 4));
      assertEquals(await execution.cancel(), "kept");
    }
  });

  await t.step("at any moment, and no interrupt reaches the next execution", async () => {
    for (let round = 0; round < 30; round++) {
      const controller = new AbortController();
      const execution = client.execute(`b = ${round}; time.sleep(0.004)`, {
        signal: controller.signal,
      });
      setTimeout(() => controller.abort(new Error("enough")), round % 15);
      await execution.result.catch(() => {});
      assertEquals(await execution.state, "kept");
      assertEquals(await kernel.text("a"), "5");
    }
  });

  await t.step("an interrupt waits for the code, and is forgotten with it", async () => {
    // Transformers run before the code does.
    await client.execute(`
import ast, asyncio, signal, sys
class Interrupts(ast.NodeTransformer):
    def visit(self, node):
        get_ipython().ast_transformers.clear()
        signal.raise_signal(signal.SIGINT)
        return node
`).result;
    for (const code of ["ran = True", "ran = True; await asyncio.sleep(0)"]) {
      await client.execute("get_ipython().ast_transformers.append(Interrupts())").result;
      const error = await rejection(client.execute(code).result);
      assertInstanceOf(error, CodeExecutionError);
      assertMatch(error.ename, /^(KeyboardInterrupt|CancelledError)$/);
      assertEquals(await kernel.text("sys.gettrace()"), null);
    }
    await client.execute("get_ipython().ast_transformers.append(Interrupts())").result;
    assertEquals(await kernel.text("# no code"), null);
    assertEquals(await kernel.text("1"), "1");
  });

  for (
    const [name, code] of [
      [
        "code after an await",
        "await asyncio.sleep(0); print('runs', flush=True)\nwhile True: pass",
      ],
      [
        "a callback after the cell",
        `def callback():
    get_ipython().events.unregister('post_execute', callback)
    print('runs', flush=True)
    time.sleep(60)
get_ipython().events.register('post_execute', callback)`,
      ],
      [
        "what an exception says of itself",
        `class Endless(Exception):
    def __str__(self):
        print('runs', flush=True)
        time.sleep(60)
raise Endless`,
      ],
      [
        "another task, which blocks",
        `async def block():
    print('runs', flush=True)
    time.sleep(60)
await asyncio.create_task(block())`,
      ],
    ] as const
  ) {
    await t.step(name, async () => {
      const execution = client.execute(code);
      await untilText(execution, "runs");
      assertEquals(await execution.cancel(), "kept");
      assertEquals(await kernel.text("a"), "5");
    });
  }

  await t.step("code with a handler of its own, until the cell has ended", async () => {
    const own = client.execute(
      "signal.signal(signal.SIGINT, lambda *_: print('mine'))\nprint('runs', flush=True); time.sleep(2)",
    );
    await untilText(own, "runs");
    await client.interrupt();
    assertEquals((await own.result).text, "runs\nmine");
    const next = client.execute("print('runs', flush=True); time.sleep(60)");
    await untilText(next, "runs");
    await client.interrupt();
    const error = await rejection(next.result);
    assertInstanceOf(error, CodeExecutionError);
    assertEquals(error.ename, "KeyboardInterrupt");
    assertNotMatch(error.traceback, /ipybox/);
  });

  for (
    const [name, code] of [
      ["while it computes", "for b in range(1000): b"],
      ["while it awaits", "b = 1; await asyncio.sleep(0.001)"],
      ["while its exception is reported", "1 / 0"],
      ["while it runs a cell", "get_ipython().run_cell('b = 2')"],
    ] as const
  ) {
    await t.step(`an interrupt ends code and nothing else of its kernel ${name}`, async () => {
      const ends = async (code: string) => {
        const execution = kernel.client.execute(code, { signal: AbortSignal.timeout(30_000) });
        const error = await execution.result.then(() => undefined, (error: unknown) => error);
        if (error !== undefined) assertInstanceOf(error, CodeExecutionError);
        return execution.partial().text;
      };
      await ends(STORM);
      await ends("thread.start()");
      while (await ends("thread.is_alive()") !== "False") await ends(code);
      assertEquals(await kernel.text("a"), "5");
    });
  }
});

/** `IPYBOX_STRESS=1000 deno task test tests/integration/kernel_cancel_test.ts` runs more of them. */
const STRESS_ROUNDS = Number(Deno.env.get("IPYBOX_STRESS") ?? 30);

Deno.test("What is said of the state after a cancellation is true", async () => {
  await using kernel = await TestKernel.start({ spareKernel: true, interruptGraceMs: 1000 });
  const { client } = kernel;
  const states = { kept: 0, lost: 0 };
  for (let round = 0; round < STRESS_ROUNDS; round++) {
    await client.execute(`import os, signal, time; marker = ${round}`).result;
    const code = round % 30 === 29
      ? "signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: time.sleep(1)"
      : round % 30 === 14
      ? "time.sleep(0.002); os._exit(1)"
      : "time.sleep(0.004)";
    const execution = client.execute(code);
    const timer = setTimeout(() => execution.cancel(), round % 11);
    const state = await execution.state;
    clearTimeout(timer);
    states[state]++;
    const expected = state === "kept" ? `${round}` : "None";
    assertEquals(await kernel.text("print(globals().get('marker'))"), expected, `round ${round}`);
  }
  assert(states.kept > 0.9 * STRESS_ROUNDS && states.lost > 0, JSON.stringify(states));
});

Deno.test("Code that has ended keeps its kernel, however late that is ready for other code", async () => {
  await using kernel = await TestKernel.start({ interruptGraceMs: 1 });
  const { client, workspace } = kernel;
  // Seen from outside, the code has ended, and the machine is busy.
  const execution = client.execute(`
import pathlib, time
a, kernel = 5, get_ipython().kernel
idle = {"execution_state": "idle"}
kernel.session.send(kernel.iopub_socket, "status", idle, parent=kernel.get_parent("shell"))
pathlib.Path("said").touch()
while not pathlib.Path("go").exists(): time.sleep(0.01)
time.sleep(0.2)
`);
  await until(() => Deno.stat(`${workspace}/said`).then(() => true, () => false));
  await execution.flush(); // what the kernel said before is here by then
  const state = execution.cancel();
  await Deno.writeTextFile(`${workspace}/go`, "");
  assertEquals(await state, "kept");
  assertEquals(await kernel.text("a"), "5");
});

Deno.test("Code that cannot be interrupted loses its kernel", async (t) => {
  await using kernel = await TestKernel.start({
    spareKernel: true,
    interruptGraceMs: 200,
    restoreWorkingDir: true,
  });
  const { client } = kernel;

  for (
    const [name, code] of [
      ["code that catches KeyboardInterrupt", STUBBORN],
      [
        "code in C",
        "import hashlib; print('running', flush=True)\nhashlib.pbkdf2_hmac('sha256', b'', b'', 2 * 10**9)",
      ],
      [
        "code that ignores SIGINT",
        `import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)${STUBBORN}`,
      ],
    ] as const
  ) {
    await t.step(name, async () => {
      await client.execute("a = 1").result;
      const execution = client.execute(code);
      await untilText(execution, "running");
      const started = performance.now();
      assertEquals(await execution.cancel(new Error("enough")), "lost");
      assert(performance.now() - started < 30_000);
      assertEquals(await kernel.text("'a' in globals()"), "False");
      const cwd = await kernel.text("import os; os.chdir('/')");
      assertEquals(cwd, `[ipybox] cwd reset to ${kernel.workspace}`);
    });
  }

  await t.step("a reset ends it", async () => {
    const execution = client.execute(STUBBORN);
    await untilText(execution, "running");
    const next = client.execute("1 + 1");
    await client.reset();
    const error = await rejection(execution.result);
    assertInstanceOf(error, DOMException);
    assertEquals(error.name, "AbortError");
    assertEquals(await execution.state, "lost");
    assertEquals((await next.result).text, "2");
  });

  await t.step("closing the client ends it", async () => {
    const execution = client.execute(STUBBORN);
    const waiting = client.execute("1");
    await untilText(execution, "running");
    await client[Symbol.asyncDispose]();
    assertEquals(
      String(await rejection(execution.result)),
      "AbortError: The kernel client was closed",
    );
    assertEquals(
      String(await rejection(waiting.result)),
      "AbortError: The kernel client was closed",
    );
    assertEquals(
      String(await rejection(client.execute("1").result)),
      "AbortError: The kernel client was closed",
    );
  });
});
