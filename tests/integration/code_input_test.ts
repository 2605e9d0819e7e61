import {
  assert,
  assertEquals,
  assertInstanceOf,
  assertMatch,
  assertStringIncludes,
} from "@std/assert";
import { settledWithin } from "../../src/base/signals.ts";
import { CodeExecutionError } from "../../src/base/errors.ts";
import type { CodeExecutor } from "../../src/executor/code_executor.ts";
import type { InputRequest } from "../../src/kernel/execution.ts";
import { auditedQuestions } from "../support/audited_questions.ts";
import { TestExecutor } from "../support/executor.ts";
import { rejection, until } from "../support/wait.ts";
import { stepsOf } from "../support/steps.ts";
import { stateOf } from "../support/workspace_state.ts";

/** Forges questions of the cell that runs. ZeroMQ would drop those that the gateway is too slow for. */
const FORGE = `
kernel = get_ipython().kernel
kernel.stdin_socket.router_mandatory = True
def forge(prompt, count=1, parent=None):
    parent = parent or kernel.get_parent("shell")
    ident = kernel._parent_ident["shell"]
    for _ in range(count):
        kernel.session.send(kernel.stdin_socket, "input_request", {"prompt": prompt, "password": True},
            parent, ident=ident)
`;
const PATIENCE_MS = 180_000;

Deno.test("What code asks is an event, where somebody answers", async (t) => {
  await using test = await TestExecutor.start();
  const { executor } = test;
  const step = stepsOf(t);

  await step("answers reach input() and getpass(), after what was written before", async () => {
    const code = `import getpass
print("first", end="")
print([input("a? "), getpass.getpass("b? "), input()])`;
    const { told, text } = await follow(executor, code, (request) => request.answer("ä\u2028"));
    assertEquals(told.slice(0, 4), ["first", "a?", "b? (hidden)", " "]);
    assertEquals(text, `first['ä\\u2028', 'ä\\u2028', 'ä\\u2028']`);
  });

  await step("end() is the end of input", async () => {
    const error = await rejection(follow(executor, "input()", (request) => request.end()));
    assertInstanceOf(error, CodeExecutionError);
    assertEquals(error.ename, "EOFError");
    assert(!error.traceback.includes("kernelbase"), error.traceback);
  });

  await step("only the first answer counts, and none comes too late", async () => {
    const kept: InputRequest[] = [];
    const { text } = await follow(executor, "print(input('one? '))", (request) => {
      kept.push(request);
      assertEquals([request.answer("1"), request.answer("2")], [true, false]);
    });
    assertEquals(text, "1");
    const { text: next } = await follow(executor, "print(input('two? '))", (request) => {
      assertEquals(kept[0]?.answer("late"), false);
      request.answer("3");
    });
    assertEquals(next, "3");
  });

  await step("the audit log says how questions ended, and not what was typed", async () => {
    const code = `import getpass
input("a? "), getpass.getpass("b? ")
try: input("c? ")
except EOFError: pass
input("d? ")`;
    const failed = await rejection(follow(executor, code, (request) => {
      if (request.prompt === "c? ") request.end();
      else if (request.prompt === "d? ") executor.interrupt();
      else request.answer("s3cret");
    }));
    assertInstanceOf(failed, CodeExecutionError);
    const rows = [
      "ipybox.input input application accept",
      "ipybox.getpass input application accept",
      "ipybox.input input application decline",
      "ipybox.input input cancelled cancel",
    ];
    // Those of earlier questions may be written late, too.
    await until(
      "all is written",
      async () => `${(await auditedQuestions(test.workspace)).slice(-rows.length)}` === `${rows}`,
    );
    const text = await Deno.readTextFile(`${await stateOf(test.workspace)}/audit.jsonl`);
    assert(!text.includes("s3cret"), text);
    assertMatch(text, /"codeHash":"[0-9a-f]{64}","kind":"input"/);
  });

  await step("the time limit stands still while a person types", async () => {
    const code = "print(input('slow? '))";
    const { text } = await follow(executor, code, (request) => {
      setTimeout(() => request.answer("typed"), 3000);
    }, { timeoutMs: 2000 });
    assertEquals(text, "typed");
  });

  await step("interrupt() takes the question back, and so does code that asks anew", async () => {
    const asked: InputRequest[] = [];
    const code = `try: input("one? ")
except KeyboardInterrupt: pass
import signal
class Rung(BaseException): pass
def ring(*_): raise Rung
signal.signal(signal.SIGALRM, ring); signal.setitimer(signal.ITIMER_REAL, 1)
try: input("two? ")
except Rung: print(input("three? "))`;
    const { text } = await follow(executor, code, (request) => {
      asked.push(request);
      if (request.prompt === "one? ") executor.interrupt();
      if (request.prompt === "three? ") request.answer("3");
    });
    assertEquals(text, "3");
    assertEquals(asked.map(({ signal }) => signal.aborted), [true, true, false]);
  });

  await step("what is forged is cut, and no question outlives its cell", async () => {
    const asked: InputRequest[] = [];
    const open = "import time\nwhile not go: time.sleep(0.01)";
    await executor.execute(`${FORGE}\ngo = []`);
    const run = follow(executor, `forge("x" * 10**6 + "END")\n${open}`, (request) => {
      asked.push(request);
      executor.interrupt(); // which the code takes for its end
    });
    assertInstanceOf(await rejection(run), CodeExecutionError);
    const [request] = asked;
    assert(request !== undefined && request.prompt.length < 3000, `${request?.prompt.length}`);
    assert(request.prompt.endsWith("END") && request.isPassword);
    assertEquals([request.signal.aborted, request.answer("x")], [true, false]);

    const kept: InputRequest[] = [];
    const flood = `forge("flood", 10_000)\ninput("real? ")`;
    const { text } = await follow(executor, flood, (request) => {
      kept.push(request);
      if (request.prompt === "real? ") request.answer("yes");
    });
    assertEquals(text, "'yes'");
    assertEquals(kept.filter(({ signal }) => !signal.aborted).map((one) => one.prompt), ["real? "]);
    assert(kept.length < 5000, `${kept.length}`);
  });

  await step("a task of an earlier cell hears that nobody answers, and holds up none", async () => {
    await executor.execute(`import asyncio
async def later():
    await go.wait()
    try: input("late? ")
    except BaseException as error: heard.append(type(error).__name__)
go, heard = asyncio.Event(), []
task = asyncio.create_task(later())`);
    const { told, text } = await follow(
      executor,
      "go.set(); await task; print(heard)",
      (request) => request.answer("mine"),
    );
    assertEquals(told, ["['EOFError']\n"]);
    assertEquals(text, "['EOFError']");
  });

  await step("threads cannot ask: they would take the answers of others", async () => {
    const code = `import threading
def ask():
    try: input()
    except BaseException as error: print(type(error).__name__, error)
thread = threading.Thread(target=ask); thread.start(); thread.join()`;
    const { text } = await follow(executor, code, () => {});
    assertStringIncludes(
      text ?? "",
      "StdinNotImplementedError input() is not supported in a thread",
    );
  });

  await step("where nobody answers, asking raises, also right after it did not", async () => {
    await follow(executor, "input()", (request) => request.answer(""));
    const error = await rejection(executor.execute("input()"));
    assertInstanceOf(error, CodeExecutionError);
    assertStringIncludes(error.message, "input() is not supported here: assign the value");
  });
});

/** Follows code: what was written and asked in order, and the text of its result. */
async function follow(
  executor: CodeExecutor,
  code: string,
  answer: (request: InputRequest) => void,
  { timeoutMs }: { timeoutMs?: number } = {},
): Promise<{ told: string[]; text: string | null }> {
  const told: string[] = [];
  let text: string | null = null;
  const run = (async () => {
    for await (const event of executor.stream(code, { events: ["input", "chunk"], timeoutMs })) {
      if (event.type === "chunk") told.push(event.text);
      if (event.type === "input") {
        told.push(`${event.request} ${event.request.isPassword ? "(hidden)" : ""}`.trim() || " ");
        answer(event.request);
      }
      if (event.type === "result") text = event.result.text;
    }
  })();
  if (!await settledWithin(run, PATIENCE_MS)) throw new Error(`It did not end: ${code}`);
  await run;
  return { told, text };
}
