import {
  assert,
  assertEquals,
  assertFalse,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { KernelDiedError } from "../../src/base/errors.ts";
import type { CodeExecutorOptions } from "../../src/executor/options.ts";
import { type Decide, ShellExecutor } from "../support/shell.ts";
import { stepsOf } from "../support/steps.ts";

const REJECT: Decide = (request) => request.reject("not today");
const NOBODY: Decide = (request) => {
  throw new Error(`Nothing is to be asked, but ${request} was`);
};

function shell(cmd: string): string {
  return `shell ${JSON.stringify({ cmd })}`;
}

function magic(cmd: string, program?: string): string {
  return `shell_magic ${JSON.stringify({ cmd, ...(program === undefined ? {} : { program }) })}`;
}

/** Code that runs commands; what is asked, which is what runs; and the text that comes of it. */
const COMMANDS: readonly { code: string; asked: string[]; text: string | null }[] = [
  { code: "!echo hello", asked: [shell("echo hello")], text: "hello" },
  { code: "r = !echo hello\nr", asked: [shell("echo hello")], text: "['hello']" },
  { code: "!!echo hello", asked: [shell("echo hello")], text: "['hello']" },
  { code: "%sx echo hello", asked: [shell("echo hello")], text: "['hello']" },
  { code: "%system echo hello", asked: [shell("echo hello")], text: "['hello']" },
  { code: "%sc -l s=echo hello\ns", asked: [shell("echo hello")], text: "['hello']" },
  { code: "%%sx\necho a\necho b", asked: [shell("echo a\necho b\n")], text: "['a', 'b']" },
  { code: "%%system\necho a", asked: [shell("echo a\n")], text: "['a']" },
  { code: "%%!\necho a", asked: [shell("echo a\n")], text: "['a']" },
  { code: "%alias greet echo hi\n%greet you", asked: [shell("echo hi you")], text: "hi you" },
  { code: "%%capture c\n!echo hello", asked: [shell("echo hello")], text: null },
  {
    code: "get_ipython().system_piped('echo a')\nget_ipython().system_raw('echo b')",
    asked: [shell("echo a"), shell("echo b")],
    text: "a\nb",
  },
  { code: "!echo a\n!echo b", asked: [shell("echo a"), shell("echo b")], text: "a\nb" },
  { code: "!exit 3\n_exit_code", asked: [shell("exit 3")], text: "3" },
  { code: "!echo é 日本 🎉", asked: [shell("echo é 日本 🎉")], text: "é 日本 🎉" },

  { code: "x = 'a b'\n!echo {x} $x", asked: [shell("echo a b a b")], text: "a b a b" },
  { code: "cmd = 'mine'\n!echo {cmd}", asked: [shell("echo mine")], text: "mine" },
  { code: "!echo {'ha' + 'cked'}", asked: [shell("echo hacked")], text: "hacked" },
  {
    code: 'items = [1, 2]\n!echo "Found {len(items)} images"',
    asked: [shell('echo "Found 2 images"')],
    text: "Found 2 images",
  },
  { code: "!echo {nope}", asked: [shell("echo {nope}")], text: "{nope}" },
  { code: `!echo '{"a": 1}'`, asked: [shell(`echo '{"a": 1}'`)], text: '{"a": 1}' },
  {
    code: "!mkdir d && touch d/f && find d -type f -exec echo {} \\;",
    asked: [shell("mkdir d && touch d/f && find d -type f -exec echo {} \\;")],
    text: "d/f",
  },
  {
    code: "!echo 'a b' | awk '{print $2}'",
    asked: [shell("echo 'a b' | awk '{print $2}'")],
    text: "b",
  },
  {
    code: "def f():\n    v = 'local'\n    !echo {v} $v\n    r = !echo {v}\n    return r\nf()",
    asked: [shell("echo local local"), shell("echo local")],
    text: "local local\n['local']",
  },
  {
    // What is in a variable is not expanded again.
    code: "x = '{1 + 1} $y'; y = 2\n!echo '{x}'",
    asked: [shell("echo '{1 + 1} $y'")],
    text: "{1 + 1} $y",
  },
  {
    code: `class Changing:
    count = 0
    def __format__(self, spec):
        self.count += 1
        return f"echo {self.count}"
c = Changing()
!{c}`,
    asked: [shell("echo 1")],
    text: "1",
  },
  {
    code: `class Lying(str):
    def __str__(self): return "echo lie"
    def rstrip(self, *chars): return "echo lie"
get_ipython().system(Lying("echo truth"))`,
    asked: [shell("echo truth")],
    text: "truth",
  },

  {
    code: "%%bash\necho a\necho $((1 + 1))",
    asked: [magic("echo a\necho $((1 + 1))\n")],
    text: "a\n2",
  },
  { code: "%%sh\necho a", asked: [magic("echo a\n")], text: "a" },
  { code: "%%bash\necho {x} $x", asked: [magic("echo {x} $x\n")], text: "{x}" },
  { code: "%%script bash\necho a", asked: [magic("echo a\n")], text: "a" },
  {
    code: "%%bash -s one two\necho $2",
    asked: [magic("echo $2\n", "bash -s one two")],
    text: "two",
  },
  { code: "%%script --out o sh -e\necho a", asked: [magic("echo a\n", "sh -e")], text: null },
  { code: "o", asked: [], text: "'a\\n'" },
  { code: "%%python3\nprint(3)", asked: [magic("print(3)\n", "python3")], text: "3" },
  {
    code: "%%script cat -u\nnot a program",
    asked: [magic("not a program\n", "cat -u")],
    text: "not a program",
  },
  {
    code: "get_ipython().run_cell_magic('bash', '', type('Lying', (str,), {})('echo a'))",
    asked: [magic("echo a")],
    text: "a",
  },
];

/** Code that would leave a file `marker`, and how its traceback shows it. */
const REJECTED: readonly { code: string; shown: string }[] = [
  { code: "!touch marker", shown: "!touch marker" },
  { code: "x = !touch marker", shown: "x = !touch marker" },
  { code: "!!touch marker", shown: "!!touch marker" },
  { code: "%sx touch marker", shown: "%sx touch marker" },
  { code: "%system touch marker", shown: "%system touch marker" },
  { code: "%mkdir marker", shown: "%mkdir marker" },
  { code: "%sc x=touch marker", shown: "%sc x=touch marker" },
  { code: "%%sx\ntouch marker", shown: "%%sx\ntouch marker" },
  { code: "%%system\ntouch marker", shown: "%%system\ntouch marker" },
  { code: "%%bash\ntouch marker", shown: "%%bash\ntouch marker" },
  { code: "%%sh\ntouch marker", shown: "%%sh\ntouch marker" },
  { code: "%%script bash\ntouch marker", shown: "%%script bash\ntouch marker" },
  { code: "%%bash --bg\ntouch marker", shown: "%%bash --bg\ntouch marker" },
  { code: "%%perl\nopen F, '>marker'", shown: "%%perl\nopen F, '>marker'" },
  { code: "%%ruby\nFile.write 'marker', ''", shown: "%%ruby\nFile.write 'marker', ''" },
  { code: "%%python\nopen('marker', 'w')", shown: "%%python\nopen('marker', 'w')" },
  { code: "%%python3\nopen('marker', 'w')", shown: "%%python3\nopen('marker', 'w')" },
  { code: "%pip install --target marker no", shown: "%pip install --target marker no" },
];

Deno.test("A shell command is asked about as it runs, and runs as it was asked about", async (t) => {
  // Approvals of tool calls are a switch of their own.
  await using test = await ShellExecutor.start({ approval: { tools: "allow", shell: "ask" } });
  const step = stepsOf(t);
  for (const { code, asked, text } of COMMANDS) {
    await step(JSON.stringify(code), async () => {
      const { error, ...outcome } = await test.run(code);
      assertEquals(error?.message, undefined);
      assertEquals(outcome, { asked, text });
    });
  }

  await step("%pip asks as the command that it is", async () => {
    const { asked } = await test.run("%pip --version", REJECT);
    assertEquals(asked.length, 1);
    assertStringIncludes(asked[0] ?? "", " -m pip --version");
  });

  await step("an edited command runs instead", async () => {
    const edit: Decide = (request) => request.accept({ arguments: { cmd: "echo {x} edited" } });
    assertEquals((await test.run("!touch marker", edit)).text, "{x} edited");
    assertEquals((await test.run("r = !touch marker\nr", edit)).text, "['{x} edited']");
    assertEquals((await test.run("%%bash\ntouch marker", edit)).text, "{x} edited");
    assertFalse(await test.marked());
  });

  const unusable = [{}, { cmd: 1 }, { cmd: "touch marker", program: "sh" }];
  for (const edited of unusable) {
    await step(`${JSON.stringify(edited)} is no edited command`, async () => {
      const { error } = await test.run("!ls", (request) => request.accept({ arguments: edited }));
      assertEquals(error?.ename, "ApprovalRejectedError");
      assertFalse(await test.marked());
    });
  }

  await step("Python before %%bash is a syntax error, and nothing is asked", async () => {
    const { error, asked } = await test.run("x = 1\n%%bash\ntouch marker", NOBODY);
    assertEquals([error?.ename, asked], ["SyntaxError", []]);
  });

  await step("Python in the body of %%bash is an error of bash", async () => {
    const { error, asked } = await test.run("%%bash\nimport this_is_no_command");
    assertEquals([error?.ename, asked.length], ["CalledProcessError", 1]);
  });

  await step("%qtconsole, which would start a program of its own, is not there", async () => {
    assertEquals((await test.run("%qtconsole", NOBODY)).error?.ename, "UsageError");
  });

  await step("a shell other than the one at the start is refused", async () => {
    await test.run("import os; os.environ['SHELL'] = '/bin/echo'");
    for (const code of ["!touch marker", "r = !touch marker"]) {
      const { error, asked } = await test.run(code, NOBODY);
      assertEquals([error?.ename, asked], ["ApprovalRejectedError", []]);
    }
    await test.run("del os.environ['SHELL']");
  });

  await step("a command that is rejected does not run", async () => {
    for (const { code, shown } of REJECTED) {
      const { error, asked } = await test.run(code, REJECT);
      assertEquals([error?.ename, asked.length], ["ApprovalRejectedError", 1], code);
      assertStringIncludes(error?.evalue ?? "", "refused: not today");
      assertStringIncludes(error?.traceback ?? "", shown);
      assertFalse(error?.traceback.includes("get_ipython()."), error?.traceback);
      assertFalse(error?.traceback.includes("ipybox_runtime"), error?.traceback);
      assertFalse(await test.marked(), code);
    }
  });

  await step("code can catch the rejection", async () => {
    const code = `from ipybox_runtime import ApprovalRejectedError
try:
    !touch marker
except ApprovalRejectedError as error:
    print(error.reason)`;
    assertEquals((await test.run(code, REJECT)).text, "not today");
  });

  await step("one that is cancelled while it is asked about does not run either", async () => {
    const abort = new AbortController();
    const { signal } = abort;
    await assertRejects(() => test.run("!touch marker", () => abort.abort(), { signal }));
    assertEquals((await test.run("1 + 1")).text, "2");
    assertFalse(await test.marked());
  });

  await step("the time for the decision does not count", async () => {
    const timeoutMs = 2000;
    const late: Decide = (request) => setTimeout(() => request.accept(), timeoutMs + 100);
    assertEquals((await test.run("!echo late", late, { timeoutMs })).text, "late");
  });
});

Deno.test("Approvals of tool calls and of shell commands are switches of their own", async (t) => {
  const step = stepsOf(t);
  const free: CodeExecutorOptions[] = [
    { approval: { tools: "ask", shell: "allow" } },
    { approval: { tools: "deny" } },
  ];
  for (const options of free) {
    await step(`${JSON.stringify(options.approval)} changes nothing in the kernel`, async () => {
      await using test = await ShellExecutor.start({ approval: {}, ...options });
      const { text } = await test.run(
        "import os\n!echo hello\n'system' in vars(get_ipython()), os.system.__module__",
        NOBODY,
      );
      assertEquals(text, "hello\n(False, 'posix')");
    });
  }

  await step("denied ones do not ask", async () => {
    await using test = await ShellExecutor.start({ approval: { tools: "allow", shell: "deny" } });
    for (const code of ["!touch marker", "%%bash\ntouch marker"]) {
      const { error } = await test.run(code, NOBODY);
      assertEquals(error?.ename, "ApprovalRejectedError");
      assertStringIncludes(error?.evalue ?? "", "Shell commands are denied");
    }
    assertFalse(await test.marked());
  });

  await step("a policy sees the command", async () => {
    const seen: unknown[] = [];
    await using test = await ShellExecutor.start({
      approval: {
        decide: (call) => {
          seen.push([call.kind, call.serverName, call.toolName, call.arguments.cmd]);
          return { mode: "allow" };
        },
      },
    });
    assertEquals((await test.run("!echo hello", NOBODY)).text, "hello");
    assertEquals(seen[0], ["shell", "ipybox", "shell", "echo hello"]);
  });
});

Deno.test("The guards hold in every kernel that the executor starts", async (t) => {
  await using test = await ShellExecutor.start({ requireShellEscape: true });
  const step = stepsOf(t);
  const assertGuarded = async () => {
    const { error } = await test.run("!touch marker", REJECT);
    assertEquals(error?.ename, "ApprovalRejectedError");
    const direct = await test.run("import os; os.system('touch marker')");
    assertEquals(direct.error?.ename, "ProcessRefusedError");
    assertFalse(await test.marked());
  };
  await step("in the first", assertGuarded);
  await step("in the one after its death", async () => {
    const died = await assertRejects(() => test.run("import os; os.kill(os.getpid(), 9)"));
    assert(died instanceof KernelDiedError, String(died));
    await assertGuarded();
  });
  await step("in the one after a reset", async () => {
    await test.executor.reset();
    await assertGuarded();
  });
});

Deno.test("Nothing of the guards is in the user's namespace", async () => {
  const code = `import json
names = lambda texts: sorted(t for t in texts if not t.startswith("_i") and not t.startswith("_o"))
get_ipython().Completer.use_jedi = False  # it takes seconds to load
completions = [t for t in get_ipython().complete("")[1] if t != "%qtconsole"]
json.dumps([names(globals()), names(completions), names(dir(get_ipython()))])`;
  await using guarded = await ShellExecutor.start({ requireShellEscape: true });
  await using plain = await ShellExecutor.start({ approval: {} });
  await guarded.run("!echo a\nr = !echo a");
  await guarded.run("%%bash\necho a");
  await plain.run("!echo a\nr = !echo a");
  await plain.run("%%bash\necho a");

  assertEquals((await guarded.run("%whos")).text, (await plain.run("%whos")).text);
  assertEquals((await guarded.run(code)).text, (await plain.run(code)).text);
});

Deno.test("Shell commands are asked about in the sandbox, too", async () => {
  await using test = await ShellExecutor.start({ sandbox: true, requireShellEscape: true });
  assertEquals(await test.run("!echo a"), { asked: [shell("echo a")], text: "a" });
  assertEquals(await test.run("%%bash\necho a"), { asked: [magic("echo a\n")], text: "a" });
  const { error } = await test.run("import subprocess; subprocess.run(['touch', 'marker'])");
  assertEquals(error?.ename, "ProcessRefusedError");
  assertFalse(await test.marked());
});
