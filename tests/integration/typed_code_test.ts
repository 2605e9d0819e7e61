import {
  assert,
  assertEquals,
  assertNotMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { silentLogger } from "../../src/base/log.ts";
import { TestExecutor } from "../support/executor.ts";
import { TestKernel, untilText } from "../support/kernel.ts";
import { stepsOf } from "../support/steps.ts";
import { rejection, until } from "../support/wait.ts";

/** Code as it is typed, and what becomes of it. */
const TYPED: readonly (readonly [code: string, status: string, indent: string])[] = [
  ["1 + 1", "complete", ""],
  ["", "complete", ""],
  ["if x:", "incomplete", "    "],
  ["if x:\n  a = 1", "incomplete", "  "],
  ["if x:\n  a = 1\n", "complete", ""],
  ["f(1,", "incomplete", ""],
  ["s = '''😀", "incomplete", ""],
  ["%%bash", "incomplete", ""],
  ["!ls", "complete", ""],
  ["await f()", "complete", ""],
  ["print?", "complete", ""],
  ["1 +* 2", "invalid", ""],
];

/** For answers that are sure to come, however busy the machine is. */
const SURE = { timeoutMs: 60_000 } as const;

Deno.test("A kernel helps with code that is being typed", async (t) => {
  await using kernel = await TestKernel.start({ interruptGraceMs: 10_000 });
  const { client } = kernel;
  const step = stepsOf(t);

  for (const [code, status, indent] of TYPED) {
    await step(`isComplete() takes ${JSON.stringify(code)} for ${status}`, async () => {
      assertEquals(await client.isComplete(code, SURE), { status, indent });
    });
  }

  await step("complete() counts positions in UTF-16", async () => {
    await client.execute("class Thing: pass\nalpha = Thing(); Thing.öffnen_alle = 1").result;
    const code = "s = '😀😀'; alpha.öff; t = '😀'";
    const cursor = code.indexOf(";", code.indexOf("."));
    const { matches, start, end } = await client.complete(code, cursor, SURE);
    assertEquals(end, cursor);
    assert(
      matches.some((match) => (code.slice(0, start) + match).endsWith("alpha.öffnen_alle")),
      JSON.stringify({ matches, start }),
    );
  });

  await step("complete() finds nothing where there is nothing", async () => {
    assertEquals((await client.complete("no_such_name_", 13, SURE)).matches, []);
  });

  await step("complete() refuses a position within a character", async () => {
    await assertRejects(() => client.complete("😀", 1), RangeError, "not at 1");
  });

  await step("a busy kernel is not waited for, and its code goes on", async () => {
    const busy = client.execute(
      "import time\nprint('begun', flush=True)\nwhile True: time.sleep(0.01)",
    );
    await untilText(busy, "begun");
    const error = await rejection(client.isComplete("1", { timeoutMs: 100 }));
    assert(error instanceof DOMException && error.name === "TimeoutError", String(error));
    await client.interrupt();
    assertStringIncludes(String(await rejection(busy.result)), "KeyboardInterrupt");
  });

  await step(
    "a value that takes for ever to look at is interrupted, and no cell shows that",
    async () => {
      await client.execute(`kept = 1
import time
class Slow:
    def __dir__(self):
        print("looked at", flush=True)
        while True: time.sleep(0.01)
slow = Slow()`).result;
      const error = await rejection(client.complete("slow.", 5, { timeoutMs: 2000 }));
      assert(error instanceof DOMException && error.name === "TimeoutError", String(error));
      assertEquals((await client.execute("kept").result).text, "1");

      // What reaches the descriptor behind stderr is output of whichever cell runs next.
      await client.execute("import os; os.write(2, b'after')").result;
      const { gateway } = kernel;
      await until("the last words", () => gateway.stderrTail.includes("after"));
      assertNotMatch(gateway.stderrTail, /KeyboardInterrupt/);
    },
  );

  await step("a signal gives up", async () => {
    const reason = new Error("enough");
    assertEquals(
      await rejection(client.isComplete("1", { signal: AbortSignal.abort(reason) })),
      reason,
    );
  });
});

Deno.test("CodeExecutor helps with code that is being typed", async (t) => {
  await using test = await TestExecutor.start({ sandbox: false });
  const { executor } = test;
  const step = stepsOf(t);

  await step("isComplete() and complete() ask its kernel", async () => {
    await executor.execute("some_name = 1");
    assertEquals(await executor.isComplete("def f():", SURE), {
      status: "incomplete",
      indent: "    ",
    });
    assertEquals(await executor.complete("x = some_na", 11, SURE), {
      matches: ["some_name"],
      start: 4,
      end: 11,
    });
  });

  await step("storeHistory keeps results as _ and in Out", async () => {
    for await (const _event of executor.stream("6 * 7", { storeHistory: true }));
    assertEquals((await executor.execute("_ + len(Out)")).text, "43");
  });

  await step("interrupt() raises KeyboardInterrupt, which code may catch", async () => {
    const code = `import time
try:
    print("begun", flush=True)
    while True: time.sleep(0.01)
except KeyboardInterrupt:
    print("caught")`;
    let text: string | null = null;
    for await (const event of executor.stream(code, { events: ["chunk"] })) {
      if (event.type === "chunk" && event.text.includes("begun")) await executor.interrupt();
      if (event.type === "result") text = event.result.text;
    }
    assertEquals(text, "begun\ncaught");
    await executor.interrupt(); // nothing is under way
  });
});

Deno.test("CodeExecutor asks about code no longer than it may, also while a gateway starts", async () => {
  const ready: string[] = [];
  const debug = (message: string) => {
    if (message.endsWith("is ready")) ready.push(message);
  };
  await using test = await TestExecutor.start({ sandbox: false, log: { ...silentLogger, debug } });
  const { executor } = test;
  await rejection(executor.execute("import os, time; os.kill(os.getppid(), 9); time.sleep(60)"));
  const before = [...ready];

  const error = await rejection(executor.isComplete("1", { timeoutMs: 1 }));

  assert(error instanceof DOMException && error.name === "TimeoutError", String(error));
  assertEquals(ready, before);
  const patient = { timeoutMs: Infinity };
  assertEquals(await executor.isComplete("1", patient), { status: "complete", indent: "" });
  assert(ready.length > before.length);
});
