import { assertEquals } from "@std/assert";
import { NO_OUTPUT } from "../../src/base/errors.ts";
import { TestExecutor } from "../support/executor.ts";
import { exists } from "../support/files.ts";
import { untilNoneWith } from "../support/processes.ts";
import { rawServer } from "../support/mcp.ts";
import { stepsOf } from "../support/steps.ts";
import { rejection, until } from "../support/wait.ts";

const SLEEP = "kept = 1\nprint('begun', flush=True)\nimport time; time.sleep(60)";

Deno.test("CodeExecutor cancels executions and stays usable", async (t) => {
  await using test = await TestExecutor.start({ sandbox: false });
  const { executor } = test;
  const step = stepsOf(t);
  const kept = async () => (await executor.execute("kept")).text;

  await step("cancel() without an execution does nothing", async () => {
    executor.cancel();
    assertEquals((await executor.execute("1")).text, "1");
  });

  await step("cancel() ends the events without a result", async () => {
    const events: string[] = [];
    for await (const event of executor.stream(SLEEP, { events: ["chunk"] })) {
      events.push(event.type);
      executor.cancel();
    }
    assertEquals(events, ["chunk"]);
    assertEquals(await kept(), "1");
  });

  await step("cancel() gives execute() an empty result", async () => {
    const result = executor.execute("open('begun', 'w').close(); import time; time.sleep(60)");
    await until("the code runs", () => exists(`${test.workspace}/begun`));
    executor.cancel();
    assertEquals(await result, NO_OUTPUT);
  });

  await step("cancel() comes before a time limit that is reached meanwhile", async () => {
    const options = { events: ["chunk"], timeoutMs: 2000 } as const;
    // The code goes on for a while when it is interrupted, until the limit is over.
    const code = "import time\nprint(1, flush=True)\ntry: time.sleep(60)\nfinally: time.sleep(1.5)";
    for await (const event of executor.stream(code, options)) {
      if (event.type === "chunk") executor.cancel();
    }
  });

  await step("cancel() leaves executions that wait for their turn", async () => {
    const first = executor.stream(SLEEP, { events: ["chunk"] });
    await first.next();
    const second = executor.execute("'second'");
    executor.cancel();
    assertEquals(await first.next(), { value: undefined, done: true });
    assertEquals((await second).text, "'second'");
  });

  await step("leaving the loop cancels", async () => {
    for await (const _event of executor.stream(SLEEP, { events: ["chunk"] })) break;
    assertEquals(await kept(), "1");
  });

  await step("a caller that throws in the loop cancels too", async () => {
    const error = await rejection((async () => {
      for await (const _event of executor.stream(SLEEP, { events: ["chunk"] })) {
        throw new Error("mine");
      }
    })());
    assertEquals(String(error), "Error: mine");
    assertEquals(await kept(), "1");
  });
});

for (const sandbox of [true, false]) {
  Deno.test(`disposing an executor that runs leaves no process (sandbox ${sandbox})`, async () => {
    const mark = `mark-${crypto.randomUUID()}`;
    await using test = await TestExecutor.start({
      sandbox,
      servers: { raw: rawServer("stubborn", `/tmp/${mark}`) },
      approval: { tools: "allow" },
    });
    await using _journal = {
      [Symbol.asyncDispose]: () => Deno.remove(`/tmp/${mark}`).catch(() => {}), // it may be missing
    };
    const code = `
import subprocess, time
from ipybox_runtime import ToolRunner
subprocess.Popen(["setsid", "sh", "-c", "sleep 1000; : ${mark}"])
ToolRunner("raw").run_sync("count")
print("begun", flush=True)
time.sleep(1000)
`;
    const events: string[] = [];

    const ended = rejection((async () => {
      for await (const event of test.executor.stream(code, { events: ["chunk"] })) {
        events.push(event.type);
        if (event.type === "chunk") await test.executor[Symbol.asyncDispose]();
      }
    })());

    assertEquals(String(await ended), "AbortError: The executor was closed");
    assertEquals(events.at(-1), "chunk");
    await untilNoneWith(mark);
  });
}
