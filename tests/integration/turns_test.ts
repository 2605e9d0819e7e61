/** Executions that wait, are cancelled or lose their kernel, and what is said of their state. */
import { assert, assertEquals, assertInstanceOf, assertStrictEquals } from "@std/assert";
import { ExecutionTimeoutError } from "../../src/base/errors.ts";
import { TestExecutor } from "../support/executor.ts";
import { stepsOf } from "../support/steps.ts";
import { rejection } from "../support/wait.ts";

const SLEEP = "kept = 1\nprint('begun', flush=True)\nimport time; time.sleep(60)";
const STUBBORN = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" +
  "print('begun', flush=True)\nwhile True: time.sleep(1)";

Deno.test("Executions take turns, and say whether variables survived", async (t) => {
  await using test = await TestExecutor.start({ sandbox: false, approval: { shell: "ask" } });
  const { executor } = test;
  const step = stepsOf(t);

  for (const [state, code] of [["kept", SLEEP], ["lost", STUBBORN]] as const) {
    await step(`${state}, by cancel()`, async () => {
      let cancelled: Promise<string> | undefined;
      for await (const _event of executor.stream(code, { events: ["chunk"] })) {
        cancelled = executor.cancel();
      }
      assertEquals([await cancelled, executor.state], [state, state]);
    });
  }

  await step("lost, on a timeout", async () => {
    await executor.execute("kept = 1");
    const error = await rejection(executor.execute(STUBBORN, { timeoutMs: 2000 }));
    assertInstanceOf(error, ExecutionTimeoutError);
    assertEquals([error.state, executor.state, error.text], ["lost", "lost", "begun"]);
    assertEquals((await executor.execute("'kept' in globals()")).text, "False");
  });

  await step("kept, by a signal", async () => {
    const controller = new AbortController();
    const reason = new Error("enough");
    const events = executor.stream(SLEEP, { events: ["chunk"], signal: controller.signal });
    await events.next();
    controller.abort(reason);
    assertStrictEquals(await rejection(events.next()), reason);
    assertEquals(executor.state, "kept");
  });

  await step("a time limit counts from the execution's turn on", async () => {
    const before = executor.execute("import time; time.sleep(3.1); 1");
    const next = executor.execute("2", { timeoutMs: 3000 });
    assertEquals([(await before).text, (await next).text], ["1", "2"]);
  });

  await step("each of several executions has its own cancellation and result", async () => {
    const controllers = Array.from({ length: 6 }, () => new AbortController());
    const results = controllers.map(({ signal }, i) => executor.execute(`print(${i})`, { signal }));
    for (const i of [1, 4]) controllers[i]?.abort(new Error(`no ${i}`));
    const ends = await Promise.allSettled(results);
    assertEquals(
      ends.map((end) => end.status === "fulfilled" ? end.value.text : String(end.reason)),
      ["0", "Error: no 1", "2", "3", "Error: no 4", "5"],
    );
  });

  await step(
    "a reset during an execution ends it, and those that wait run afterwards",
    async () => {
      const events = executor.stream(SLEEP, { events: ["chunk"] });
      await events.next();
      const waiting = executor.execute("'kept' in globals()");

      const ended = rejection(events.next());
      await executor.reset();

      assertEquals(String(await ended), "AbortError: The kernel was reset");
      assertEquals(executor.state, "lost");
      assertEquals((await waiting).text, "False");
    },
  );

  await step("several resets at once are one after all", async () => {
    await executor.execute("a = 1");
    await Promise.all([executor.reset(), executor.reset()]);
    assertEquals((await executor.execute("'a' in globals()")).text, "False");
  });

  await step("a reset while a decision is pending withdraws it", async () => {
    const events = executor.stream("kept = 1\n!touch marker");
    const { value: event } = await events.next();
    assert(event?.type === "approval");

    await executor.reset();

    assert(event.request.signal.aborted, "it can still be decided");
    await event.request.accept();
    assertEquals(String(await rejection(events.next())), "AbortError: The kernel was reset");
    assertEquals(
      (await executor.execute("import os; 'kept' in globals(), os.path.exists('marker')")).text,
      "(False, False)",
    );
  });

  await step("disposing of the executor does not wait for a reader that pauses", async () => {
    const events = executor.stream(SLEEP, { events: ["chunk"] });
    await events.next();

    await executor[Symbol.asyncDispose]();

    assertEquals(String(await rejection(events.next())), "AbortError: The executor was closed");
  });
});

Deno.test("What happens to one of many executors leaves the others alone", async (t) => {
  await using tests = new AsyncDisposableStack();
  const start = async () =>
    tests.use(await TestExecutor.start({ spareKernel: false, sandbox: false }));
  const all = await Promise.all(Array.from({ length: 3 }, start));
  const [first, ...others] = all.map(({ executor }) => executor);
  assert(first !== undefined);
  const held = others.map((executor, i) =>
    executor.stream(`mine = ${i}\n${SLEEP}`, { events: ["chunk"] })
  );
  await Promise.all(held.map((events) => events.next()));

  await rejection(first.execute("import os; os._exit(1)"));
  await first.reset();
  await rejection(first.execute("import time; time.sleep(60)", { timeoutMs: 100 }));
  await first[Symbol.asyncDispose]();

  for (const [i, executor] of others.entries()) {
    assertEquals(await executor.cancel(), "kept");
    assertEquals(await held[i]?.next(), { value: undefined, done: true });
    assertEquals((await executor.execute("mine, kept")).text, `(${i}, 1)`);
  }

  await t.step("disposing of one ends what runs and what waits, and more is refused", async () => {
    const [executor] = others;
    assert(executor !== undefined);
    const events = executor.stream(STUBBORN, { events: ["chunk"] });
    await events.next();
    const ended = [events.next(), executor.execute("1"), executor.execute("2")].map(rejection);
    const started = performance.now();

    await executor[Symbol.asyncDispose]();

    for (const error of await Promise.all(ended)) {
      assertEquals(String(error), "AbortError: The executor was closed");
    }
    assertEquals(
      String(await rejection(executor.execute("3"))),
      "AbortError: The executor was closed",
    );
    assert(performance.now() - started < 30_000);
  });
});
