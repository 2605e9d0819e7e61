/** Executions that wait, are cancelled or lose their kernel, and what is said of their state. */
import { assert, assertEquals, assertInstanceOf, assertStrictEquals } from "@std/assert";
import { ExecutionTimeoutError } from "../../src/errors.ts";
import { rejection, TestExecutor } from "../support/executor.ts";
import { stepsOf } from "../support/steps.ts";

const SLEEP = "kept = 1\nprint('begun', flush=True)\nimport time; time.sleep(60)";
const STUBBORN = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" +
  "print('begun', flush=True)\nwhile True: time.sleep(1)";

Deno.test("CodeExecutor says whether variables survived", async (t) => {
  await using test = await TestExecutor.start({ sandbox: false });
  const { executor } = test;
  const step = stepsOf(t);

  for (
    const [name, code, state] of [["kept", SLEEP, "kept"], ["lost", STUBBORN, "lost"]] as const
  ) {
    await step(`${name}, on a timeout`, async () => {
      const error = await rejection(executor.execute(code, { timeoutMs: 300 }));
      assertInstanceOf(error, ExecutionTimeoutError);
      assertEquals([error.state, executor.state, error.text], [state, state, "begun"]);
      const isThere = (await executor.execute("'kept' in globals()")).text;
      assertEquals(isThere, state === "kept" ? "True" : "False");
    });

    await step(`${name}, by cancel()`, async () => {
      let cancelled: Promise<string> | undefined;
      for await (const _event of executor.stream(code, { chunks: true })) {
        cancelled = executor.cancel();
      }
      assertEquals([await cancelled, executor.state], [state, state]);
    });

    await step(`${name}, by a signal`, async () => {
      const controller = new AbortController();
      const reason = new Error("enough");
      const events = executor.stream(code, { chunks: true, signal: controller.signal });
      await events.next();
      controller.abort(reason);
      assertStrictEquals(await rejection(events.next()), reason);
      assertEquals(executor.state, state);
    });
  }
});

Deno.test("A time limit counts from the execution's turn on", async () => {
  await using test = await TestExecutor.start({ sandbox: false });
  const { executor } = test;
  const results = await Promise.all(
    [1, 2, 3].map((number) =>
      executor.execute(`import time; time.sleep(0.5); ${number}`, { timeoutMs: 1000 })
    ),
  );
  assertEquals(results.map(({ text }) => text), ["1", "2", "3"]);
});

Deno.test("Each of several executions has its own cancellation and result", async () => {
  await using test = await TestExecutor.start({ sandbox: false });
  const { executor } = test;
  const controllers = Array.from({ length: 6 }, () => new AbortController());
  const results = controllers.map(({ signal }, i) => executor.execute(`print(${i})`, { signal }));
  for (const i of [1, 4]) controllers[i]?.abort(new Error(`no ${i}`));
  const ends = await Promise.allSettled(results);
  assertEquals(
    ends.map((end) => end.status === "fulfilled" ? end.value.text : String(end.reason)),
    ["0", "Error: no 1", "2", "3", "Error: no 4", "5"],
  );
});

Deno.test("A reset during an execution ends it, and those that wait run afterwards", async () => {
  await using test = await TestExecutor.start({ sandbox: false });
  const { executor } = test;
  const events = executor.stream(SLEEP, { chunks: true });
  await events.next();
  const waiting = executor.execute("'kept' in globals()");

  const ended = rejection(events.next());
  await executor.reset();

  assertEquals(String(await ended), "AbortError: The kernel was reset");
  assertEquals(executor.state, "lost");
  assertEquals((await waiting).text, "False");
});

Deno.test("Several resets at once are one after all", async () => {
  await using test = await TestExecutor.start({ sandbox: false });
  const { executor } = test;
  await executor.execute("a = 1");
  await Promise.all([executor.reset(), executor.reset(), executor.reset()]);
  assertEquals((await executor.execute("'a' in globals()")).text, "False");
});

Deno.test("Disposing of the executor ends what runs and what waits, and more is refused", async () => {
  await using test = await TestExecutor.start({ sandbox: false });
  const { executor } = test;
  const events = executor.stream(STUBBORN, { chunks: true });
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
  assert(performance.now() - started < 15_000);
});
