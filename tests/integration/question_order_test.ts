/** Who decides sees first what the code has said before it asked. */
import { assertEquals } from "@std/assert";
import { stepsOf } from "../support/steps.ts";
import { TestExecutor } from "../support/executor.ts";

/** Code that asks, and what is seen of it in order: text, and `?` for each question. */
const CODES: readonly { name: string; code: string; seen: string }[] = [
  {
    name: "printed lines",
    code: "for n in range(30):\n    print(n)\n    !true\n",
    seen: Array.from({ length: 30 }, (_, n) => `${n}\n?`).join(""),
  },
  {
    name: "an open line of stdout and one of stderr",
    code: "import sys\nprint('out ', end='')\nprint('err', file=sys.stderr, end='')\n!true",
    seen: "out err?",
  },
  {
    name: "a megabyte",
    code: "print('x' * 1_000_000)\n!true\nprint('y')",
    seen: `${"x".repeat(1_000_000)}\n?y\n`,
  },
  {
    name: "another thread's",
    code:
      "import threading\ndef work():\n    print('in a thread')\n    get_ipython().system('true')\n" +
      "thread = threading.Thread(target=work); thread.start(); thread.join()",
    seen: "in a thread\n?",
  },
];

Deno.test("What code has printed comes before what it asks", async (t) => {
  await using test = await TestExecutor.start({ sandbox: false, approval: { shell: "ask" } });
  const step = stepsOf(t);
  for (const { name, code, seen } of CODES) {
    await step(name, async () => {
      let all = "";
      for await (const event of test.executor.stream(code, { events: ["chunk"] })) {
        if (event.type === "chunk") all += event.text;
        if (event.type !== "approval") continue;
        all += "?";
        await event.request.accept();
      }
      assertEquals(all, seen);
    });
  }

  await step(
    "code that leaves the kernel no time for that is asked about all the same",
    async () => {
      // The lock of the interpreter is held by a call into C while another thread asks.
      const code = `
import ctypes, threading, time
thread = threading.Thread(target=lambda: get_ipython().system("true"))
sleep = ctypes.PyDLL(None).usleep
thread.start()
for _ in range(40): sleep(100_000)
thread.join()`;
      let asked = 0;
      for await (const event of test.executor.stream(code)) {
        if (event.type !== "approval") continue;
        asked++;
        await event.request.accept();
      }
      assertEquals(asked, 1);
    },
  );
});
