import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import {
  CodeExecutionError,
  ConfigError,
  ExecutionTimeoutError,
  KernelDiedError,
} from "../../src/base/errors.ts";
import { silentLogger } from "../../src/base/log.ts";
import { CodeExecutor } from "../../src/executor/code_executor.ts";
import { follow, TestExecutor } from "../support/executor.ts";
import { rawServer } from "../support/mcp.ts";
import { testPython } from "../support/python.ts";
import { stepsOf } from "../support/steps.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { rejection, until } from "../support/wait.ts";

const NONE = (): never => {
  throw new Error("Nothing here asks for approval");
};

/** How much a flood of output is. */
const FLOOD_BYTES = 200_000_000;

Deno.test("CodeExecutor runs code in a kernel that keeps its state", async (t) => {
  await using test = await TestExecutor.start();
  const { executor, workspace } = test;
  const step = stepsOf(t);

  await step("variables persist from one execution to the next", async () => {
    await executor.execute("a = 40");
    assertEquals((await executor.execute("a + 2")).text, "42");
  });

  await step("chunks come as they are produced, then the result", async () => {
    const code = "import sys\nprint('out', flush=True)\nprint('err', file=sys.stderr, flush=True)";
    const { events } = await follow(executor, code, NONE, { events: ["chunk"] });
    assertEquals(events.at(-1), 'result "out\\nerr"');
    assertEquals(events.slice(0, -1).toSorted(), [
      'chunk stderr "err\\n"',
      'chunk stdout "out\\n"',
    ]);
  });

  await step("without chunks only the result comes", async () => {
    const { events } = await follow(executor, "print(1)\n2", NONE);
    assertEquals(events, ['result "1\\n2"']);
  });

  await step("an exception is an error that has the text so far", async () => {
    const error = await rejection(executor.execute("print('before')\n1 / 0"));
    assert(error instanceof CodeExecutionError);
    assertEquals(error.ename, "ZeroDivisionError");
    assertEquals(error.text, "before");
    assertStringIncludes(error.traceback, "1 / 0");
  });

  await step("a syntax error is one too, and the kernel stays as it was", async () => {
    const error = await rejection(executor.execute("a = 1\nprint(("));
    assert(error instanceof CodeExecutionError);
    assertEquals(error.ename, "SyntaxError");
    assertEquals((await executor.execute("a")).text, "40");
  });

  await step("executions that are asked for at once run in order", async () => {
    await executor.execute("order = []");
    const numbers = Array.from({ length: 10 }, (_, number) => number);
    await Promise.all(numbers.map((number) => executor.execute(`order.append(${number})`)));
    assertEquals((await executor.execute("order")).text, `[${numbers.join(", ")}]`);
  });

  await step("a time limit ends the code and keeps the state", async () => {
    const error = await rejection(
      executor.execute("print('begun', flush=True)\nimport time; time.sleep(60)", {
        timeoutMs: 2000,
      }),
    );
    assert(error instanceof ExecutionTimeoutError);
    assertEquals([error.timeoutMs, error.state, error.text], [2000, "kept", "begun"]);
    assertStringIncludes(error.message, "2.00s");
    assertEquals((await executor.execute("a")).text, "40");
  });

  await step("a time limit that is none is refused before anything runs", async () => {
    const refused = executor.execute("a = 0", { timeoutMs: 0 });
    await assertRejects(() => refused, RangeError, "timeoutMs must be a number above 0, not 0");
    assertEquals((await executor.execute("a")).text, "40");
  });

  await step("a signal that aborts rejects with its reason and keeps the state", async () => {
    const abort = new AbortController();
    const reason = new Error("the user left");
    const code = "print('begun', flush=True)\nimport time; time.sleep(60)";
    const error = await rejection((async () => {
      const options = { signal: abort.signal, events: ["chunk"] } as const;
      for await (const _chunk of executor.stream(code, options)) abort.abort(reason);
    })());
    assertEquals(error, reason);
    assertEquals((await executor.execute("a")).text, "40");
  });

  await step("a signal that has aborted keeps code from running", async () => {
    const signal = AbortSignal.abort(new Error("too late"));
    await assertRejects(() => executor.execute("a = 0", { signal }), Error, "too late");
    assertEquals((await executor.execute("a")).text, "40");
  });

  await step("images are files in the workspace", async () => {
    const png =
      "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJ" +
      "RU5ErkJggg==";
    const { images } = await executor.execute(
      `import base64\nfrom IPython.display import Image, display\n` +
        `display(Image(data=base64.b64decode("${png}")))`,
    );
    assertEquals(images.length, 1);
    const image = images[0]!;
    assert(image.path.startsWith(`${workspace}/images/`), image.path);
    assertEquals((await Deno.readFile(image.path)).toBase64(), png);
    assertEquals([image.mimeType, image.bytes().toBase64()], ["image/png", png]);
  });

  await step("a kernel that dies is an error, and the next code has a fresh one", async () => {
    const error = await rejection(executor.execute("import os; os._exit(3)"));
    assert(error instanceof KernelDiedError, String(error));
    assertEquals((await executor.execute("'a' in globals()")).text, "False");
  });

  await step("reset clears variables and keeps files", async () => {
    await executor.execute("a = 1; open('kept.txt', 'w').write('kept')");
    await executor.reset();
    const { text } = await executor.execute("'a' in globals(), open('kept.txt').read()");
    assertEquals(text, "(False, 'kept')");
  });

  await step("a reader that pauses does not fill the memory, and loses no result", async () => {
    const code = `print("x", flush=True)\nfor _ in range(${
      FLOOD_BYTES / 100_000
    }): print("x" * 99_999)`;
    const events = executor.stream(code, { events: ["chunk"] });
    await events.next();
    const before = Deno.memoryUsage().heapUsed;

    let most = 0;
    await until("all has come", async () => {
      most = Math.max(most, Deno.memoryUsage().heapUsed - before);
      return await sizeOfFilesIn(`${workspace}/images`) >= FLOOD_BYTES;
    }, 120_000);

    let streamed = 0;
    let leftOut = 0;
    for await (const event of events) {
      switch (event.type) {
        case "chunk": {
          const note = /\[ipybox: (\d+) characters were not streamed/.exec(event.text);
          if (note === null) streamed += event.text.length;
          else leftOut += Number(note[1]);
          break;
        }
        case "result": {
          const text = event.result.text ?? "";
          assert(text.startsWith("x\nxxx") && text.endsWith("xxx"), text.slice(0, 100));
          const whole = /the full text is in (\S+)\]/.exec(text)?.[1] ?? "";
          assertEquals((await Deno.stat(whole)).size, "x\n".length + FLOOD_BYTES);
        }
      }
    }
    assertEquals(streamed + leftOut, FLOOD_BYTES);
    assert(
      leftOut > FLOOD_BYTES / 2,
      `only ${leftOut} characters were omitted: was the reader paused?`,
    );
    // What waits takes 16 MiB. The rest is what the collector of garbage has not seen to yet.
    assert(most < 0.75 * FLOOD_BYTES, `the memory grew by ${most} bytes`);
  });
});

Deno.test("CodeExecutor hands its options on to the kernel and the servers", async (t) => {
  Deno.env.set("IPYBOX_TEST_SECRET_EXECUTOR", "of the host");
  using _secret = { [Symbol.dispose]: () => Deno.env.delete("IPYBOX_TEST_SECRET_EXECUTOR") };
  await using test = await TestExecutor.start({
    sandbox: false,
    kernelEnv: { GREETING: "hello" },
    imagesDir: "pictures",
    restoreWorkingDir: true,
    maxOutputBytes: 1000,
    servers: { raw: rawServer() },
    approval: { tools: "allow" },
    callTimeoutMs: 2000,
    serverIdleMs: 1,
  });
  const { executor, workspace } = test;
  const step = stepsOf(t);

  await step("kernelEnv reaches it, the host's environment does not", async () => {
    const { text } = await executor.execute(
      "import os; print(os.environ['GREETING'], os.environ.get('IPYBOX_TEST_SECRET_EXECUTOR'))",
    );
    assertEquals(text, "hello None");
  });

  await step("imagesDir is where images go", async () => {
    const { images } = await executor.execute(
      "from IPython.display import display\n" +
        "display({'image/png': 'iVBORw0KGgo='}, raw=True)",
    );
    assertEquals(images.map(({ path }) => path.slice(0, path.lastIndexOf("/"))), [
      `${workspace}/pictures`,
    ]);
  });

  await step("restoreWorkingDir brings each execution back to the workspace", async () => {
    const { text } = await executor.execute("import os; os.chdir('/')");
    assertStringIncludes(text ?? "", workspace);
    assertEquals((await executor.execute("print(os.getcwd())")).text, workspace);
  });

  await step("maxOutputBytes bounds the text, and the whole is in a file", async () => {
    const { text } = await executor.execute("print('x' * 100_000)");
    assert((text ?? "").length < 2000, text ?? "");
    assertStringIncludes(text ?? "", `${workspace}/pictures/`);
  });

  await step("approval asks nobody where it allows all", async () => {
    const code =
      "import ipybox_runtime as r; raw = r.ToolRunner('raw')\nraw.run_sync('count').text";
    const { events } = await follow(executor, code, () => {});
    assertEquals(events, [`result "'1'"`]);
  });

  await step("callTimeoutMs ends calls", async () => {
    const slow = await rejection(executor.execute("raw.run_sync('sleep', {'ms': 60_000})"));
    assert(slow instanceof CodeExecutionError);
    assertEquals(slow.ename, "ToolTimeoutError");
  });

  await step("serverIdleMs ends servers, which count from the start then", async () => {
    const count = async () => (await executor.execute("raw.run_sync('count').text")).text;
    await count();
    await until("it is another one", async () => await count() === "'1'");
  });
});

async function sizeOfFilesIn(folder: string): Promise<number> {
  const entries = await Array.fromAsync(Deno.readDir(folder)).catch(() => []); // not there yet
  const stats = await Promise.all(entries.map(({ name }) => Deno.stat(`${folder}/${name}`)));
  return stats.reduce((sum, { size }) => sum + size, 0);
}

Deno.test("CodeExecutor.start() says that there is no such workspace", async () => {
  await using folder = await TempFolder.create();
  const workspace = `${folder.path}/none`;
  await assertRejects(
    () => CodeExecutor.start({ workspace, python: testPython(), log: silentLogger }),
    ConfigError,
    `Workspace "${workspace}" does not exist`,
  );
});

Deno.test("CodeExecutor.start() refuses numbers that no limit can be", async (t) => {
  await using workspace = await TempFolder.create();
  const common = { workspace: workspace.path, python: testPython(), log: silentLogger };
  const names = [
    "approvalTimeoutMs",
    "callTimeoutMs",
    "connectTimeoutMs",
    "serverIdleMs",
    "startTimeoutMs",
  ] as const;
  for (const name of names) {
    await t.step(name, async () => {
      for (const value of [0, -1, NaN]) {
        const start = async () => {
          await using _executor = await CodeExecutor.start({ ...common, [name]: value });
        };
        const error = await assertRejects(start, RangeError);
        assertEquals(error.message, `${name} must be a number above 0, not ${value}`);
      }
    });
  }
});
