import { assert, assertEquals, assertInstanceOf, assertMatch } from "@std/assert";
import { CodeExecutionError, KernelStartError } from "../../src/base/errors.ts";
import type { OutputChunk } from "../../src/kernel/spill_file.ts";
import { KernelClient } from "../../src/kernel/client.ts";
import { TestGateway, TestKernel } from "../support/kernel.ts";
import { rejection } from "../support/wait.ts";

/** Behaviours of the reference's kernel client: code and its text. */
const TEXTS: readonly { name: string; code: string; text: string | null }[] = [
  { name: "print", code: "print('Hello')", text: "Hello" },
  { name: "an expression", code: "2 + 2", text: "4" },
  { name: "the last expression of a cell", code: "x = 3\ny = 4\nx * y", text: "12" },
  { name: "an assignment", code: "x = 1", text: null },
  { name: "several prints", code: "print('a')\nprint('b')\nprint('c')", text: "a\nb\nc" },
  { name: "empty code", code: "", text: null },
  { name: "whitespace", code: "\n  \n", text: null },
  { name: "an empty line", code: "print()", text: "" },
  { name: "print and an expression", code: "print('a')\n1", text: "a\n1" },
  { name: "displays on lines of their own", code: "display(1); display(2); 3", text: "1\n2\n3" },
  { name: "a display after an open line", code: "print('a', end=''); display(1)", text: "a\n1" },
  { name: "a print after a display", code: "display(1); print('a')", text: "1\na" },
  { name: "a progress bar", code: "print('10%\\r20%\\r100%\\ndone')", text: "100%\ndone" },
  { name: "a unicode text", code: "print('añ日本🎉')", text: "añ日本🎉" },
  { name: "a long line", code: "print('x' * 500_000)", text: "x".repeat(500_000) },
  {
    name: "50 000 lines",
    code: "for i in range(50_000): print(i)",
    text: Array.from({ length: 50_000 }, (_, i) => i).join("\n"),
  },
  { name: "10 001 lines of code", code: "a = 1\n".repeat(10_000) + "a", text: "1" },
  {
    name: "small pieces over time",
    code: "import asyncio\nfor i in range(100):\n  print(i, end=' ')\n  await asyncio.sleep(0.005)",
    text: Array.from({ length: 100 }, (_, i) => i).join(" "),
  },
  {
    name: "a top-level await",
    code: "import asyncio\nawait asyncio.sleep(0, 'done')",
    text: "'done'",
  },
  { name: "a shell command", code: "!echo from the shell", text: "from the shell" },
  {
    name: "stdout of a subprocess",
    code:
      "import subprocess; print(subprocess.run(['echo', 'a'], capture_output=True, text=True).stdout)",
    text: "a",
  },
  { name: "plain output of !ls", code: "!mkdir -p d && ls -d --color=auto d", text: "d" },
  {
    name: "TERM",
    code: "import os; os.environ['TERM'], os.environ['NO_COLOR']",
    text: "('dumb', '1')",
  },
  {
    name: "a variable of the gateway's environment",
    code: "os.environ['TEST_VAR']",
    text: "'given'",
  },
  { name: "code in a fence", code: "\n```python\n1 + 1\n```\n", text: "2" },
  { name: "a fence that only ends", code: "1 + 1\n```", text: "2" },
  { name: "a fence that only begins", code: "~~~\n1 + 1", text: "2" },
  {
    name: "fences of a file",
    code: "%%writefile a.md\n```python\n1\n```\n",
    text: "Writing a.md",
  },
  { name: "that file", code: "print(open('a.md').read())", text: "```python\n1\n```" },
  { name: "a byte order mark", code: "\ufeff1 + 1", text: "2" },
  { name: "no-break spaces", code: "if True:\n\u00a0\u00a0print(1)\u200b", text: "1" },
  { name: "no-break spaces in a string", code: "len('''\n\u00a0''')", text: "2" },
  { name: "line ends of Windows", code: "%%bash\r\nfor i in 1; do echo $i; done\r\n", text: "1" },
  { name: "no names of ours", code: "%reset -f\n%whos", text: "Interactive namespace is empty." },
];

/** Code that fails: the error's name, and what its message must contain. */
const ERRORS: readonly { code: string; ename: string; parts: readonly string[] }[] = [
  { code: "print(", ename: "SyntaxError", parts: ["print("] },
  {
    code: "def fail():\n  1 / 0\nfail()",
    ename: "ZeroDivisionError",
    parts: ["in fail()", "line 3"],
  },
  { code: "undefined_name", ename: "NameError", parts: ["undefined_name"] },
  {
    code: "input('? ')",
    ename: "StdinNotImplementedError",
    parts: ["input() is not supported here: assign the value to a variable"],
  },
  {
    code: "import getpass; getpass.getpass()",
    ename: "StdinNotImplementedError",
    parts: ["getpass() is not supported here"],
  },
  { code: "raise ValueError('über')", ename: "ValueError", parts: ["über"] },
  { code: "import sys; sys.exit(3)", ename: "SystemExit", parts: ["3"] },
  { code: "!true\nx = !true\n1 / 0", ename: "ZeroDivisionError", parts: [" !true", " x = !true"] },
  { code: "%%bash\nexit 7", ename: "CalledProcessError", parts: ["exit status 7", "%%bash"] },
];

Deno.test("A kernel answers as the reference's did", async (t) => {
  await using kernel = await TestKernel.start({ kernelEnv: { TEST_VAR: "given" } });
  for (const { name, code, text } of TEXTS) {
    await t.step(name, async () => {
      const result = await kernel.client.execute(code).result;
      assertEquals(result.text, text);
      assertEquals(result.images, []);
    });
  }

  await t.step("a fresh namespace has no names of ours", async () => {
    await kernel.client.reset();
    const names = "[n for n in globals() if 'ipybox' in n.lower() or 'start' in n] + In[1:]";
    assertEquals(await kernel.text(names), "[]");
  });

  await t.step("variables, functions and imports persist until a reset", async () => {
    await kernel.client.execute("import json\nvalue = 5\ndef double(n): return 2 * n").result;
    assertEquals(await kernel.text("json.dumps(double(value))"), "'10'");
    await kernel.client.reset();
    assertEquals(await kernel.text("'value' in globals()"), "False");
  });

  await t.step("executions run in the order in which they were asked for", async () => {
    const executions = Array.from({ length: 20 }, (_, i) => kernel.client.execute(`print(${i})`));
    const results = await Promise.all(executions.map((execution) => execution.result));
    assertEquals(results.map(({ text }) => text), executions.map((_, i) => `${i}`));
  });

  await t.step("another client at the same gateway has a state of its own", async () => {
    await using other = await KernelClient.start({ gateway: kernel.gateway });
    await kernel.client.execute("mine = 1").result;
    const [here, there] = await Promise.all([
      kernel.text("'mine' in globals()"),
      other.execute("'mine' in globals()").result,
    ]);
    assertEquals([here, there.text], ["True", "False"]);
  });

  await t.step("chdir persists where it is not restored", async () => {
    await kernel.client.execute("import os; os.chdir('/')").result;
    assertEquals(await kernel.text("os.getcwd()"), "'/'");
    await kernel.client.execute("%cd -q /usr").result;
    assertEquals(await kernel.text("os.getcwd()"), "'/usr'");
  });

  await t.step("the history has only what is stored in it", async () => {
    await kernel.client.execute("'unstored'").result;
    await kernel.client.execute("'stored'", { storeHistory: true }).result;
    const history = await kernel.text("[line for line in In if 'stored' in line]");
    assertEquals(history, `["'stored'"]`);
  });

  await t.step("A failing execution throws a CodeExecutionError", async (t) => {
    for (const { code, ename, parts } of ERRORS) {
      await t.step(`${ename} of ${JSON.stringify(code)}`, async () => {
        const execution = kernel.client.execute(code);
        const error = await rejection(execution.result);
        assertInstanceOf(error, CodeExecutionError);
        assertEquals(error.ename, ename);
        for (const part of parts) assert(error.message.includes(part), error.message);
        // deno-lint-ignore no-control-regex -- escape sequences are what must not be there
        assert(!/\x1b/.test(error.message), error.message);
        assert(!error.message.includes("ipybox_runtime"), error.message);
        assert(error.outputs.some(({ type }) => type === "error"));
        assertEquals(await execution.state, "kept");
      });
    }

    await t.step("with the text and the outputs made before", async () => {
      const error = await rejection(kernel.client.execute("print('before')\n1/0").result);
      assertInstanceOf(error, CodeExecutionError);
      assertEquals(error.text, "before");
      assertEquals(error.outputs[0], { type: "stream", name: "stdout", text: "before\n" });
    });

    await t.step("also where its chunks are iterated", async () => {
      const chunks: OutputChunk[] = [];
      const error = await rejection((async () => {
        for await (const chunk of kernel.client.execute("print('a')\n1/0")) chunks.push(chunk);
      })());
      assertInstanceOf(error, CodeExecutionError);
      assertEquals(chunks, [{ type: "chunk", stream: "stdout", text: "a\n" }]);
    });

    await t.step("and the next one works", async () => {
      const [failing, next] = [kernel.client.execute("1/0"), kernel.client.execute("'next'")];
      await rejection(failing.result);
      assertEquals((await next.result).text, "'next'");
    });
  });
});

Deno.test("A kernel with a working directory starts in it", async (t) => {
  await using own = await TestGateway.start();
  const { gateway, workspace } = own;
  const workingDir = `${workspace}/work`;
  await Deno.mkdir(`${workingDir}/gone`, { recursive: true });

  await t.step("and stays away from it without restoreWorkingDir", async () => {
    await using client = await KernelClient.start({ gateway, workingDir });
    const first = await client.execute("import os; print(os.getcwd()); os.chdir('/')").result;
    assertEquals(first.text, workingDir);
    assertEquals((await client.execute("os.getcwd()").result).text, "'/'");
  });

  await t.step("and returns to it with restoreWorkingDir, also after a reset", async () => {
    await using client = await KernelClient.start({ gateway, workingDir, restoreWorkingDir: true });
    const notice = `[ipybox] cwd reset to ${workingDir}`;
    for (let round = 0; round < 2; round++) {
      assertEquals((await client.execute("import os\nos.chdir('/')").result).text, notice);
      assertEquals((await client.execute("os.getcwd()").result).text, `'${workingDir}'`);
      assertEquals((await client.execute("%cd -q /").result).text, notice);
      await client.reset();
    }
    const removed = "import os\nos.chdir('gone')\nos.rmdir(os.getcwd())";
    assertEquals((await client.execute(removed).result).text, notice);
    const names = "[n for n in globals() if 'cwd' in n or 'ipybox' in n]";
    assertEquals((await client.execute(names).result).text, "[]");
  });
});

Deno.test("KernelClient.start() says why it cannot start", async (t) => {
  await using own = await TestGateway.start();
  const { gateway } = own;

  await t.step("a kernel that takes too long", async () => {
    const error = await rejection(KernelClient.start({ gateway, startTimeoutMs: 1 }));
    assertInstanceOf(error, KernelStartError);
    assertMatch(error.message, /not ready within 0.001 s\. .*increase startTimeoutMs/);
  });

  await t.step("a limit that is none", async () => {
    const error = await rejection(KernelClient.start({ gateway, maxOutputBytes: -1 }));
    assertInstanceOf(error, RangeError);
  });

  await t.step("an aborted signal", async () => {
    const reason = new Error("changed my mind");
    const signal = AbortSignal.abort(reason);
    assertEquals(await rejection(KernelClient.start({ gateway, signal })), reason);
  });

  await t.step("a wrong token", async () => {
    const wrong = { url: gateway.url, token: "wrong" };
    const error = await rejection(KernelClient.start({ gateway: wrong }));
    assertInstanceOf(error, KernelStartError);
    assertMatch(String(error), /answered POST api\/kernels with 401/);
  });

  await t.step("a working directory that does not exist", async () => {
    const error = await rejection(KernelClient.start({ gateway, workingDir: "/no/such/folder" }));
    assertMatch(String(error), /Cannot set up the kernel: FileNotFoundError.*no\/such\/folder/);
  });

  await t.step("nothing that listens", async () => {
    const nothing = { url: new URL("http://127.0.0.1:9/"), token: "" };
    assertInstanceOf(await rejection(KernelClient.start({ gateway: nothing })), KernelStartError);
  });
});
