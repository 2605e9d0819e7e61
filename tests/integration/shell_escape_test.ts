import {
  assert,
  assertEquals,
  assertFalse,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { type ApprovalSetting, CodeExecutor } from "../../mod.ts";
import { testPython } from "../support/python.ts";
import { type Decide, ShellExecutor } from "../support/shell.ts";
import { stepsOf } from "../support/steps.ts";

const REJECT: Decide = (request) => request.reject("not today");

/** Ways to start a process without asking, and what the refusal names. */
const DIRECT: readonly { code: string; named: string }[] = [
  { code: "import subprocess; subprocess.run(['touch', 'marker'])", named: "subprocess.Popen" },
  { code: "subprocess.Popen('touch marker', shell=True)", named: "subprocess.Popen" },
  { code: "subprocess.check_output(['touch', 'marker'])", named: "subprocess.Popen" },
  { code: "subprocess.getoutput('touch marker')", named: "subprocess.Popen" },
  { code: "import os; os.system('touch marker')", named: "os.system" },
  { code: "os.popen('touch marker').read()", named: "subprocess.Popen" },
  { code: "os.execv('/usr/bin/touch', ['touch', 'marker'])", named: "os.exec" },
  { code: "os.execvp('touch', ['touch', 'marker'])", named: "os.exec" },
  { code: "os.execlpe('touch', 'touch', 'marker', {})", named: "os.exec" },
  { code: "os.spawnl(os.P_WAIT, '/usr/bin/touch', 'touch', 'marker')", named: "os.spawnl" },
  { code: "os.spawnvp(os.P_WAIT, 'touch', ['touch', 'marker'])", named: "os.spawnvp" },
  { code: "os.posix_spawn('/usr/bin/touch', ['touch', 'marker'], {})", named: "os.posix_spawn" },
  { code: "os.posix_spawnp('touch', ['touch', 'marker'], {})", named: "os.posix_spawn" },
  { code: "import pty; pty.spawn(['touch', 'marker'])", named: "pty.spawn" },
  {
    code: "import asyncio; await asyncio.create_subprocess_shell('touch marker')",
    named: "subprocess.Popen",
  },
  {
    code:
      "import multiprocessing.util as m; m.spawnv_passfds(b'/usr/bin/touch', ['touch', 'marker'], ())",
    named: "_posixsubprocess.fork_exec",
  },
];

/** Ways around the guard: none raises where the marker could tell, and none leaves it. */
const ATTACKS: readonly { name: string; code: string }[] = [
  {
    name: "reload the guarded modules",
    code: `import importlib, os, subprocess
importlib.reload(subprocess)
importlib.reload(os)
subprocess.run(["touch", "marker"])`,
  },
  {
    name: "spawn by the reloaded os",
    code: `importlib.reload(os)
assert os.spawnl(os.P_WAIT, "/usr/bin/touch", "touch", "marker") == 127
raise RuntimeError`,
  },
  { name: "call the C module", code: "import posix; posix.system('touch marker')" },
  { name: "exec by the C module", code: "posix.execv('/usr/bin/touch', ['touch', 'marker'])" },
  { name: "ask the C library", code: "import ctypes; ctypes.CDLL(None).system(b'touch marker')" },
  { name: "look up a C function by name", code: "ctypes.CDLL(None)['execv']" },
  {
    name: "exec in a fork",
    code: `pid = os.fork()
if pid == 0:
    try:
        os.execv("/usr/bin/touch", ["touch", "marker"])
    finally:
        os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
raise RuntimeError`,
  },
  {
    name: "put IPython's own methods back",
    code: "ip = get_ipython(); type(ip).getoutput(ip, 'touch marker')",
  },
  { name: "delete the replacements", code: "del ip.system; ip.system('touch marker')" },
  {
    name: "take the functions that IPython runs commands with",
    code: "from IPython.utils import process; process.system('touch marker')",
  },
  {
    name: "install the guard once more, for a way around it of one's own",
    code: `from ipybox_runtime.kernel import process_guard
with process_guard.install()(lambda words: True):
    subprocess.run(["touch", "marker"])`,
  },
];

Deno.test("With requireShellEscape only approved shell commands start processes", async (t) => {
  await using test = await ShellExecutor.start({ requireShellEscape: true });
  const step = stepsOf(t);

  for (const { code, named } of DIRECT) {
    await step(`${JSON.stringify(code)} is refused`, async () => {
      const { error, asked } = await test.run(code);
      assertEquals([error?.ename, asked], ["ProcessRefusedError", []]);
      assertStringIncludes(error?.evalue ?? "", `${named} is not allowed`);
      assertStringIncludes(error?.evalue ?? "", "use !command or %%bash");
      assertFalse(error?.traceback.includes("ipybox_runtime"), error?.traceback);
      assertFalse(await test.marked());
    });
  }

  for (
    const { code, text } of [
      { code: "!echo a", text: "a" },
      { code: "r = !echo a\nr", text: "['a']" },
      { code: "get_ipython().system_raw('echo a')", text: "a" },
      { code: "%%bash\necho a", text: "a" },
      { code: "%%sh\necho a", text: "a" },
      { code: "%%script cat\na", text: "a" },
      { code: "%%bash --bg --out later\necho a", text: null },
    ]
  ) {
    await step(
      `${JSON.stringify(code)} runs once it is approved, and then no other`,
      async () => {
        const { error, asked, ...outcome } = await test.run(code);
        assertEquals([error?.message, asked.length, outcome.text], [undefined, 1, text]);
        const direct = await test.run("import os; os.system('touch marker')");
        assertEquals(direct.error?.ename, "ProcessRefusedError");
        assertFalse(await test.marked());
      },
    );
  }

  await step("programs that a command starts are its own business", async () => {
    const code = `!python3 -c "import subprocess; subprocess.run(['echo', 'a'])"`;
    assertEquals((await test.run(code)).text, "a");
  });

  await step("one that is rejected starts nothing", async () => {
    const { error } = await test.run("!touch marker", REJECT);
    assertEquals(error?.ename, "ApprovalRejectedError");
    assertFalse(await test.marked());
  });

  await step("a refusal is a RuntimeError, and an OSError for libraries", async () => {
    const code = `import platform, subprocess
for kind in RuntimeError, PermissionError:
    try:
        subprocess.run("true")
    except kind as error:
        print(error.errno)
platform.processor()`;
    assertStringIncludes((await test.run(code)).text ?? "", "1\n1\n");
  });

  await step("multiprocessing by fork, which starts no program, works", async () => {
    const code = `import multiprocessing
with multiprocessing.get_context("fork").Pool(1) as pool:
    print(pool.map(abs, [-1, -2]))`;
    assertEquals((await test.run(code)).text, "[1, 2]");
  });
});

Deno.test("Ways around the guard of processes lead nowhere", async (t) => {
  await using test = await ShellExecutor.start({ requireShellEscape: true });
  const step = stepsOf(t);
  for (const { name, code } of ATTACKS) {
    await step(name, async () => {
      const { error } = await test.run(code);
      assert(error !== undefined);
      assertFalse(/^(Name|Attribute|Assertion|Syntax)Error/.test(error.ename), error.traceback);
      assertFalse(await test.marked());
    });
  }
});

Deno.test("requireShellEscape needs approval of shell commands", async (t) => {
  const free: (ApprovalSetting | undefined)[] = [
    undefined,
    "allow",
    {},
    { tools: "ask" },
    { tools: "deny", shell: "allow" },
  ];
  for (const approval of free) {
    await t.step(`approval ${JSON.stringify(approval)} is a TypeError`, async () => {
      await assertRejects(
        () => CodeExecutor.start({ python: testPython(), approval, requireShellEscape: true }),
        TypeError,
        "approval.shell",
      );
    });
  }
});
