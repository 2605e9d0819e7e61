import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { shellWord } from "../../src/base/shell_word.ts";
import { cliArguments, ipybox, startIpybox } from "../support/cli.ts";
import { inThisProcess } from "../support/command_io.ts";
import type { ProgramEnd } from "../../src/process/run_program.ts";
import { runProgram } from "../support/program.ts";
import { testIf } from "../support/skip.ts";
import { until } from "../support/wait.ts";
import { workspaceWithServer } from "../support/mcp_workspace.ts";
import { processesWith, untilNoneWith } from "../support/processes.ts";
import { denoDirectory, TempCache } from "../support/temp_cache.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { asUnprivileged, giveToUnprivileged, whyNotUnprivileged } from "../support/unprivileged.ts";

const problem = await whyNotUnprivileged();

const CALL =
  "from ipybox_runtime import ToolRunner\nprint(ToolRunner('raw').run_sync('count').text)";

/** Shows why the call failed, and goes on. */
const TRIED_CALL = `import sys
try:
    ${CALL.replace("\n", "\n    ")}
except Exception as error:
    print(f"{type(error).__name__}: {error}", file=sys.stderr)
`;

interface Case {
  readonly name: string;
  readonly args: readonly string[];
  readonly stdin?: string;
  /** Whether it runs in the sandbox, whose start takes time. */
  readonly sandbox?: true;
  readonly code: number;
  readonly stdout: string;
  /** What stands on stderr, among other things: all of it if it is a line; nothing without it. */
  readonly stderr?: readonly string[];
}

const cases: readonly Case[] = [
  {
    name: "- runs stdin, and --trace-startup says where the time goes, unless it is the code's",
    args: ["-", "--trace-startup", "--", "--trace-startup"],
    stdin: "import sys; print(sys.argv[1])\n1 + 1",
    sandbox: true,
    code: 0,
    stdout: "--trace-startup\n2\n",
    stderr: [
      "load ipybox\n",
      "find Python\n",
      "wait for the plan\n",
      "bwrap and self-test\n",
      "start the gateway\n",
      "start the kernel\n",
      "run code\n",
      "end the kernel\n",
      "end the gateway\n",
    ],
  },
  {
    name:
      "pip and uv that find no index say what installs the packages, and sys.exit() with a text says it",
    args: [
      "-c",
      "package = 'no-such-package'\n!pip install {package} 'other>=2' -r list.txt >/dev/null 2>&1\n" +
      "!uv pip install {package} >/dev/null 2>&1\n!pip show {package} >/dev/null 2>&1\n" +
      "import sys; sys.exit('no such city')",
    ],
    sandbox: true,
    code: 1,
    stdout: "",
    stderr: [
      "[ipybox] To install them: ipybox install no-such-package 'other>=2'\n" +
      "[ipybox] To install it: ipybox install no-such-package\n" +
      "no such city\n",
    ],
  },
  {
    name: "without a terminal, calls are refused, and code goes on; --timeout ends it",
    args: [
      "--timeout",
      "5",
      "-c",
      `${TRIED_CALL}print('begun', flush=True)\nimport time\ntime.sleep(60)`,
    ],
    code: 1,
    stdout: "begun\n",
    stderr: [
      "ApprovalUnavailableError: ",
      "could not be approved: there is no terminal to ask on (--page asks in a browser, --approve allow allows calls)",
      "Cell In[1], line 9\n",
      "ipybox: Code execution exceeded timeout of 5.00s",
    ],
  },
  {
    name: "a server that is missing is registered by a command, which is named",
    args: ["-c", "from mcptools.github import search"],
    code: 1,
    stdout: "",
    stderr: ["ModuleNotFoundError", 'server "github" here: see `ipybox register --help`\n'],
  },
  {
    name:
      "--approve allow allows calls, and text that is cut in results is in a file, which is named",
    args: ["--approve=allow", "-c", `${CALL}\nprint('a' * 2_000_000, end='')`],
    code: 0,
    stdout: `1\n${"a".repeat(2_000_000)}\n`,
    stderr: ["Whole output: ", ".txt\n"],
  },
  {
    name: "a Python that does not do is exit code 3, with what helps",
    args: ["--python", "/bin/false", "-c", "1"],
    code: 3,
    stdout: "",
    stderr: ['Cannot use "/bin/false" as Python', "To fix it: "],
  },
  {
    name: "a sandbox configuration that is not there is exit code 2",
    args: ["--sandbox-config", "/no/such.json", "-c", "1"],
    sandbox: true,
    code: 2,
    stdout: "",
    stderr: ["/no/such.json"],
  },
];

for (const { name, args, stdin, sandbox = false, code, stdout, stderr } of cases) {
  Deno.test(`ipybox run: ${name}`, async () => {
    await using workspace = await workspaceWithServer();

    const all = ["run", ...sandbox ? [] : ["--no-sandbox"], ...args];
    const ended = stdin === undefined
      ? await inThisProcess(all, { workspace: workspace.path })
      : await ipybox(all, { cwd: workspace.path, stdin });
    const end = { ...ended, stderr: withoutWarning(ended.stderr) };

    assertEquals({ code: end.code, stdout: end.stdout }, { code, stdout }, end.stderr);
    if (stderr === undefined) assertEquals(end.stderr, "");
    if (stderr?.length === 1 && stderr[0]?.endsWith("\n")) assertEquals(end.stderr, stderr[0]);
    for (const words of stderr ?? []) assertStringIncludes(end.stderr, words);
    assert(!end.stderr.includes("unexpected error"), end.stderr);
  });
}

Deno.test("ipybox run --json prints the outcome as one object", async (t) => {
  await using workspace = await TempFolder.create();
  const outcomes: Record<string, [code: number, status: string, ename: string | undefined]> = {
    'print(1)\ndisplay({"image/svg+xml": "<svg/>"}, raw=True)\nraise SystemExit': [
      0,
      "ok",
      undefined,
    ],
    // What a kernel has sent leaves it a moment later.
    "print(1, flush=True)\nimport os, time; time.sleep(1); os._exit(1)": [
      1,
      "died",
      "KernelDiedError",
    ],
  };
  for (const [source, [code, status, ename]] of Object.entries(outcomes)) {
    await t.step(source, async () => {
      const args = ["run", "--json", "--no-sandbox", "-c", source];
      const end = await inThisProcess(args, { workspace: workspace.path });
      const outcome = JSON.parse(end.stdout);
      assertEquals([end.code, outcome.status, outcome.error?.ename], [code, status, ename]);
      assertEquals(outcome.text.split("\n")[0], "1");
      const images = await Promise.all(
        outcome.images.map((path: string) => Deno.readTextFile(path)),
      );
      assertEquals(images, source.includes("<svg/>") ? ["<svg/>"] : []);
      assertEquals(outcome.outputs[0], { type: "stream", name: "stdout", text: "1\n" });
    });
  }
});

Deno.test("ipybox run does not mind when nobody reads its output any more", async () => {
  await using workspace = await TempFolder.create();
  const code = "import time\nwhile True:\n    print('line', flush=True)\n    time.sleep(0.01)";

  const { stdout, stderr } = await inBash(
    `${commandLine("run", "--no-sandbox", "-c", code)} | head -1; echo "code \${PIPESTATUS[0]}"`,
    workspace.path,
  );

  assertEquals(stdout, "line\ncode 141\n");
  assertEquals(withoutWarning(stderr), "");
  await untilNoneWith(workspace.path);
});

Deno.test("a full disk is no defect of ipybox", async () => {
  await using workspace = await TempFolder.create();

  const { stdout, stderr } = await inBash(
    `${commandLine("servers", "--json")} >/dev/full; echo "code $?"`,
    workspace.path,
  );

  assertEquals(stdout, "code 1\n");
  assertEquals(stderr, "ipybox: No space left on device (os error 28)\n");
});

/** What was said besides that there is no sandbox. */
function withoutWarning(stderr: string): string {
  return stderr.replace(/^ipybox: warning: No sandbox.*\n/, "");
}

function commandLine(...args: string[]): string {
  return [Deno.execPath(), ...cliArguments, ...args].map(shellWord).join(" ");
}

async function inBash(command: string, cwd: string): Promise<ProgramEnd> {
  return await runProgram("bash", ["-c", command], { cwd, env: { NO_COLOR: "1" } });
}

/** A file that begins with a mark, shows what it is given, and fails; it writes there what does not run. */
const SHOWS = `\uFEFFimport asyncio, os, sys
print("to stderr", file=sys.stderr)
print(sys.argv, os.environ["A"], os.environ["B"], os.environ.get("SECRET"))
def f(x):
    open(__file__, "w").write("pass\\n" * 99)
    return 1 / x

async def g(x):
    return f(x)
await asyncio.gather(g(0))
`;

Deno.test("ipybox run FILE gives it arguments and KERNEL_ENV_X as X; its tracebacks name it, and its lines", async () => {
  await using workspace = await TempFolder.create();
  const file = `${workspace.path}/shows.py`;
  await Deno.writeTextFile(file, SHOWS);
  await Deno.writeTextFile(`${workspace.path}/.env`, "KERNEL_ENV_B=b\n");

  const { code, stdout, stderr } = await ipybox(
    ["run", "shows.py", "--", "a b", "--pretty", 'ü"\\'],
    { cwd: workspace.path, env: { KERNEL_ENV_A: "a", SECRET: "s" } },
  );

  const argv = "['shows.py', 'a b', '--pretty', 'ü\"\\\\']";
  assertEquals([code, stdout], [1, `${argv} a b None\n`], stderr);
  for (const place of [":10\n", ":9, in g(x)\n", ":6, in f(x)\n"]) {
    assertStringIncludes(stderr, `File ${file}${place}`);
  }
  assertMatch(stderr, /^to stderr\n[^]*----> 6 {5}return 1 \/ x/);
  assert(!stderr.includes("ipykernel"), stderr);
});

testIf(Deno.build.os === "linux", "names are UTF-8 elsewhere", {
  name: "ipybox run in a folder whose name is not UTF-8 says what to do",
  fn: async () => {
    await using parent = await TempFolder.create();
    const run = [Deno.execPath(), ...cliArguments, "run", "-c", "1"].map(shellWord).join(" ");
    const command = `mkdir "$(printf 'a\\351')" && cd "$(printf 'a\\351')" && exec ${run}`;
    const { code, stderr } = await inBash(command, parent.path);
    assertEquals(code, 2, stderr);
    assertMatch(stderr, /is not UTF-8: rename the folder, or name a workspace/);
  },
});

Deno.test("processes that a script spawns find it, wherever it is", async () => {
  await using workspace = await TempFolder.create();
  await using elsewhere = await TempFolder.create();
  const file = `${elsewhere.path}/spawns.py`;
  await Deno.writeTextFile(
    file,
    `import multiprocessing as mp
def square(x): return x * x
if __name__ == "__main__":
    with mp.get_context("spawn").Pool(1) as pool:
        print(pool.map_async(square, [1, 2]).get(timeout=60))
`,
  );
  const ran = await inThisProcess(["run", file], { workspace: workspace.path });
  assertEquals(ran.stdout, "[1, 4]\n", ran.stderr);
});

Deno.test("ipybox run says what a Python of one's own lacks, also if that shows only in a start", async () => {
  await using folder = await TempFolder.create();
  await using cache = await TempCache.create();
  const venv = await new Deno.Command("python3", {
    args: ["-I", "-m", "venv", "--without-pip", `${folder.path}/venv`],
  }).output();
  assert(venv.success);
  const [lib] = await Array.fromAsync(Deno.readDir(`${folder.path}/venv/lib`));
  const site = `${folder.path}/venv/lib/${lib?.name}/site-packages`;
  await Deno.mkdir(`${site}/__pycache__`);
  for (const module of ["kernel_gateway", "ipykernel", "pydantic"]) {
    await Deno.writeTextFile(`${site}/${module}.py`, "");
  }
  await Deno.mkdir(`${folder.path}/workspace`);
  const run = async () =>
    await ipybox(
      ["run", "-c", "1", "--no-sandbox", "--python", `${folder.path}/venv/bin/python`],
      {
        cwd: `${folder.path}/workspace`,
        env: cache.env,
      },
    );

  const good = await run();
  await Deno.writeTextFile(`${site}/kernel_gateway.py`, "1 / 0"); // which does not change its folder
  const broken = await run();

  assertEquals([good.code, broken.code], [3, 3], good.stderr + broken.stderr);
  assertStringIncludes(good.stderr, "The kernel gateway exited with code 1");
  assertStringIncludes(broken.stderr, "jupyter_kernel_gateway: ZeroDivisionError");
});

Deno.test("ipybox run ends at SIGTERM and leaves no process", async () => {
  await using workspace = await TempFolder.create();
  const mark = `mark-${crypto.randomUUID()}`;
  const source = `import subprocess, time
subprocess.Popen(["setsid", "sh", "-c", "sleep 1000; : ${mark}"])
time.sleep(1000)`;
  await using child = startIpybox(["run", "-"], { cwd: workspace.path, stdin: "piped" });
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode(source));
  await writer.close();
  await until("the code has begun", async () => (await processesWith(mark)).length > 0);

  child.kill("SIGTERM");

  const end = await child.output();
  const stderr = new TextDecoder().decode(end.stderr);
  assertEquals(end.code, 143, stderr);
  assertStringIncludes(stderr, "ipybox: interrupted");
  await untilNoneWith(mark);
  await untilNoneWith(workspace.path);
});

Deno.test("ipybox writes nothing to a workspace that no session can use", async () => {
  await using folder = await TempFolder.create();
  const workspace = await Deno.realPath(folder.path);
  const RUN = ["run", "-c", "1"];
  const refused: (readonly [variable: string, args: readonly string[], why: string])[] = [
    ["HOME", RUN, "could read the whole home directory"],
    ["HOME", ["register", "raw", "--", "true"], "could read the whole home directory"],
    ["XDG_CACHE_HOME", RUN, "are stored in"],
  ];
  for (const [variable, args, why] of refused) {
    const env = { [variable]: workspace, DENO_DIR: await denoDirectory() };
    const end = await ipybox(args, { cwd: workspace, env });
    assertStringIncludes(end.stderr, why);
    assert(end.code !== 0, why);
    const names = await Array.fromAsync(Deno.readDir(workspace), ({ name }) => name);
    assertEquals(names, [], `${variable} ${args}`);
  }
});

Deno.test("ipybox run -c gives the code its arguments, and ends with the exit code that Python makes of its own, wherever TMPDIR is", async () => {
  await using folder = await TempFolder.create();
  const workspace = await Deno.realPath(folder.path);
  const code = "import sys; print(sys.argv, globals().get('__file__')); sys.exit(-1)";
  for (const TMPDIR of ["/no/such", workspace]) {
    const end = await ipybox(["run", "-c", code, "--", "x"], { cwd: workspace, env: { TMPDIR } });
    assertEquals(end, { code: 255, stdout: "['-c', 'x'] None\n", stderr: "" });
  }
  const left = await Array.fromAsync(Deno.readDir(workspace), ({ name }) => name);
  assertEquals(left.sort(), [".ipybox", "mcptools"]);
});

testIf(Deno.uid() === 0 && problem === undefined, problem ?? "only root can give folders away", {
  name: "ipybox names the state of a workspace that another user has used",
  async fn() {
    await using home = await TempFolder.create();
    await using folder = await TempFolder.create();
    const state = `${await Deno.realPath(folder.path)}/.ipybox`;
    for (const path of [home.path, folder.path]) await giveToUnprivileged(path);
    await Deno.mkdir(state, { mode: 0o700 });
    const [command = "", ...args] = asUnprivileged([Deno.execPath(), ...cliArguments, "servers"]);
    const { code, stderr } = await runProgram(command, args, {
      cwd: folder.path,
      env: { NEW_HOME: home.path, NO_COLOR: "1", DENO_DIR: await denoDirectory() },
    });
    assertEquals(code, 2, stderr);
    const fix =
      "choose another folder with --workspace, or let code only read this one: ipybox mcp";
    assertStringIncludes(stderr.replaceAll(/\s+/g, " "), fix);
  },
});
