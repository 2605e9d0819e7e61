/** Placements without an engine: commands of this machine, with and without walls, whole and cut. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import {
  ConfigError,
  EnvironmentNotReadyError,
  GatewayStartError,
  KernelDiedError,
  ProcessError,
  SandboxUnavailableError,
} from "../../src/base/errors.ts";
import type { CodeExecutor } from "../../src/executor/code_executor.ts";
import type { CodeExecutorOptions } from "../../src/executor/options.ts";
import { parsePlacement } from "../../src/place/placement.ts";
import { TestExecutor } from "../support/executor.ts";
import { useSession } from "../support/placed.ts";
import { processesWith, untilNoneWith } from "../support/processes.ts";
import { testPython } from "../support/python.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { rejection, until } from "../support/wait.ts";

/** A command that changes nothing: what it starts is this machine's own. */
const HERE = { type: "command", command: ["/usr/bin/env"] } as const;
const WALLED = { ...HERE, bubblewrap: true } as const;

const cutter = new URL("../fixtures/cut_carrier.py", import.meta.url).pathname;

async function refusal(options: CodeExecutorOptions): Promise<Error> {
  const error = await rejection(TestExecutor.start(options));
  assert(error instanceof Error);
  return error;
}

/** A command that runs a script of the shell, with the launcher's command as its arguments. */
function script(text: string) {
  return { type: "command", command: ["/bin/sh", "-c", text, "sh"] } as const;
}

/** The folder that a session elsewhere has for itself. */
async function folderOf(executor: CodeExecutor): Promise<string> {
  const { text } = await executor.execute("import os; os.environ['HOME']");
  const [folder] = /\/tmp\/ipybox\.\w+/.exec(text ?? "") ?? [];
  assert(folder !== undefined, `${text}`);
  return folder;
}

Deno.test("a session elsewhere does what one here does, behind a wall that is built there", async () => {
  await using started = await TestExecutor.start({ placement: WALLED });
  const { executor, workspace } = started;
  await Deno.writeTextFile(`${workspace}/mine.txt`, "mine");
  await useSession(executor);

  const { text } = await executor.execute(`
import os, pathlib, socket
def attempt(act):
    try:
        return str(act())
    except OSError as error:
        return type(error).__name__
print(os.listdir("."), attempt(lambda: open("${workspace}/mine.txt").read()))
print(attempt(lambda: socket.create_connection(("1.1.1.1", 53), 1)))
for folder in os.environ["PYTHONPATH"].split(":")[:1]:
    print(attempt(lambda: open(f"{folder}/ipybox_runtime/planted.py", "w")))
pathlib.Path("kept.txt").write_text("here")
print(pathlib.Path("kept.txt").read_text())`);
  assertEquals(text, "[] FileNotFoundError\nOSError\nOSError\nhere");
  const limits =
    "import resource as r; r.getrlimit(r.RLIMIT_NPROC)[0], r.getrlimit(r.RLIMIT_NOFILE)[0]";
  assertEquals((await executor.execute(limits)).text, "(1024, 2048)");

  const folder = await folderOf(executor);
  await Deno.stat(folder);
  await started[Symbol.asyncDispose]();
  await untilNoneWith(folder);
  await until("the folder is gone", () => Deno.stat(folder).then(() => false, () => true));
});

Deno.test("a launcher that was stopped does not outlive its host", async () => {
  // What it starts does not end with it, as on another machine.
  const command = ["/usr/bin/setsid", "--fork", "--wait"];
  let home = "";
  {
    await using started = await TestExecutor.start({ placement: { ...WALLED, command } });
    home = await folderOf(started.executor);
    // As code can on a Linux before 6.12
    for (const pid of await processesWith(`\0-S\0${home}/session/launcher/launcher.py`)) {
      if ((await Deno.readTextFile(`/proc/${pid}/comm`)).startsWith("python")) {
        Deno.kill(pid, "SIGSTOP");
      }
    }
  }
  await untilNoneWith(home);
});

Deno.test("a place without walls is refused, unless that is asked for", async () => {
  const error = await refusal({ placement: HERE });
  assert(error instanceof SandboxUnavailableError, `${error}`);
  assertMatch(error.message, /capabilities|network|can be/);

  await using started = await TestExecutor.start({ placement: HERE, sandbox: false });
  assertEquals((await started.executor.execute("6 * 7")).text, "42");
});

Deno.test("a session that was cut off says so, and the next execution begins anew", async () => {
  await using marked = await TempFolder.create();
  // The command's own process; the launcher is another one.
  const placement = { ...script(`: ${marked.path}; setsid "$@"; exit $?`), bubblewrap: true };
  await using started = await TestExecutor.start({ placement });
  const { executor } = started;
  await executor.execute("a = 1");
  const running = rejection(executor.execute("import time; time.sleep(600)"));
  for (const pid of await processesWith(marked.path)) {
    Deno.kill(-pid, "SIGKILL"); // and so its group
  }
  const error = await running;
  assert(error instanceof KernelDiedError, `${error}`);
  assertMatch(error.message, /kernel gateway (has )?ended/);
  assertEquals((await executor.execute("'a' in globals()")).text, "False");
});

Deno.test("a command that leads nowhere is refused with what it said", async () => {
  const cases: [string, RegExp][] = [
    ["echo no such host >&2; exit 255", /no such host/],
    ["exit 0", /it ended without a message/],
    ["echo Welcome!", /Something other.*Welcome!/],
    ["echo '{\"ipybox\": 1}'", /Something other/],
    ["cat /dev/zero", /Something other/],
    ["yes", /Something other/],
  ];
  await Promise.all(cases.map(async ([text, message]) => {
    const error = await refusal({ placement: script(text) });
    assert(error instanceof EnvironmentNotReadyError, `${text}: ${error}`);
    assertMatch(error.message, message);
    assert(error.fix.length > 0);
  }));
  const silent = await refusal({ placement: script("cat >/dev/null"), startTimeoutMs: 1000 });
  assert(silent instanceof GatewayStartError, `${silent}`);
  const missing = await refusal({ placement: { type: "command", command: ["no-such-engine"] } });
  assert(missing instanceof EnvironmentNotReadyError, `${missing}`);
  assertStringIncludes(missing.message, "no-such-engine is not on the PATH");
});

Deno.test("a stream that breaks off, or turns to garbage, ends the start with an error", async () => {
  // The first bytes are the boot's answer, then comes the launcher's report, then the gateway's words.
  const cuts = [1, 420, 900, 2000];
  const cases = cuts.map((count) => [count, "cut"] as const);
  for (
    const [count, then] of [...cases, [0, "garbage"], [600, "garbage"], [1100, "garbage"]] as const
  ) {
    const command = [testPython(), cutter, String(count), then];
    const started = performance.now();
    const error = await refusal({ placement: { type: "command", command }, sandbox: false });
    const isKnown = error instanceof EnvironmentNotReadyError || error instanceof ProcessError;
    assert(isKnown, `${then} after ${count}: ${error}`);
    // Not by the limit of the start, which is a minute.
    assert(performance.now() - started < 45_000, `${then} after ${count}: ${error}`);
  }
});

Deno.test("a place that goes silent is given up after the time that a start may take", async () => {
  // Before the launcher's report, and after it: then there is something to copy, too.
  await Promise.all([500, 900].map(async (count) => {
    const command = [testPython(), cutter, String(count), "silence"];
    const placement = { type: "command", command } as const;
    const error = await refusal({ placement, sandbox: false, startTimeoutMs: 3000 });
    assert(error instanceof ProcessError, `${error}`);
    assertStringIncludes(error.message, "did not answer within 3 s");
  }));
});

Deno.test("placements are checked, and what only counts on this machine is refused", async () => {
  const bad: unknown[] = [
    "docker",
    { type: "kubernetes", namespace: "-n" },
    { type: "kubernetes", pool: "p", image: "i" },
    { type: "kubernetes", workspace: "/w" },
    { type: "ssh", host: "-oProxyCommand=touch /tmp/x" },
    { type: "ssh", host: "h", workspace: "relative" },
    { type: "docker", image: "--privileged" },
    { type: "docker", cpus: 0 },
    { type: "command", command: [] },
    { type: "command", command: ["a\0b"] },
    { type: "ssh", host: "h", port: 1 },
  ];
  for (const value of bad) {
    const error = await rejection((async () => await Promise.resolve(parsePlacement(value)))());
    assert(error instanceof ConfigError, `${JSON.stringify(value)}: ${error}`);
  }
  const project = await refusal({ placement: WALLED, sandbox: { project: "/usr" } });
  assertStringIncludes(project.message, "sandbox.project");
});
