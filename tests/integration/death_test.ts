/** Every process between the application and the kernel is killed, with and without the sandbox. */
import { assert, assertEquals, assertInstanceOf, assertMatch, assertRejects } from "@std/assert";
import { KernelDiedError } from "../../src/base/errors.ts";
import type { CodeExecutor } from "../../src/executor/code_executor.ts";
import { TestExecutor } from "../support/executor.ts";
import { processesWith, untilNoneWith } from "../support/processes.ts";
import { rejection } from "../support/wait.ts";

/** Processes around the kernel, told by their command lines. */
interface Victim {
  readonly name: string;
  readonly isIt: (args: readonly string[]) => boolean;
}

const VICTIMS: readonly Victim[] = [
  {
    name: "the gateway",
    isIt: ([, isolated, script]) => isolated === "-I" && script?.endsWith("gateway.py") === true,
  },
  { name: "the launcher", isIt: isLauncher },
  { name: "bwrap", isIt: ([program]) => /(^|\/)bwrap$/.test(program ?? "") },
];

for (const sandbox of [true, false]) {
  Deno.test(`A death is noticed and recovered from (${sandbox ? "" : "no "}sandbox)`, async (t) => {
    await using test = await TestExecutor.start({ sandbox });
    const { executor } = test;

    for (const { name, isIt } of sandbox ? VICTIMS : VICTIMS.slice(0, 1)) {
      await t.step(`of ${name}`, async () => {
        const root = await rootOf(executor);
        const victim = await find(root, isIt);
        const error = await whileRunning(executor, () => Deno.kill(victim, "SIGKILL"));
        assertInstanceOf(error, KernelDiedError);
        assertMatch(error.message, /kernel gateway ended/);
        if (name === "the gateway") {
          assertEquals(error.signal, "SIGKILL");
          assertMatch(error.message, /perhaps because it ran out of memory/);
        }
        assertEquals(error.text, "before");
        await assertFresh(executor);
        await assertNothingLeft(root);
      });
    }

    if (sandbox) await dieInBetween(t, executor);

    const root = await rootOf(executor);
    await executor[Symbol.asyncDispose]();
    await assertNothingLeft(root);
  });
}

async function dieInBetween(t: Deno.TestContext, executor: CodeExecutor): Promise<void> {
  await t.step("of the launcher between executions: the next one says so", async () => {
    const root = await rootOf(executor);
    Deno.kill(await find(root, isLauncher), "SIGKILL");
    await untilNoneWith(`${root}/session/launcher/kernel.py`);
    assertInstanceOf(await rejection(executor.execute("print(1)")), KernelDiedError);
    await assertFresh(executor);
    await assertNothingLeft(root);
  });

  await t.step("of the launcher before a reset, which starts all anew", async () => {
    const root = await rootOf(executor);
    Deno.kill(await find(root, isLauncher), "SIGKILL");
    await untilNoneWith(`${root}/session/launcher/kernel.py`);
    await executor.reset();
    assertEquals((await executor.execute("'time' in globals()")).text, "False");
    await assertNothingLeft(root);
  });

  await t.step("of the link, by garbage on it", async () => {
    const root = await rootOf(executor);
    const launcher = await find(root, isLauncher);
    const error = await whileRunning(executor, () => writeGarbage(launcher));
    assertInstanceOf(error, KernelDiedError);
    assertMatch(error.stderrTail, /frame/);
    await assertFresh(executor);
    await assertNothingLeft(root);
  });
}

/** What an execution under way rejects with when something happens to it. */
async function whileRunning(
  executor: CodeExecutor,
  happen: () => void | Promise<void>,
): Promise<unknown> {
  const code = "import time; print('before', flush=True); time.sleep(60)";
  const events = executor.stream(code, { events: ["chunk"] });
  await events.next();
  await happen();
  const started = performance.now();
  const error = await rejection(Array.fromAsync(events)); // the line's end may come apart
  assert(performance.now() - started < 30_000, "it took too long");
  return error;
}

async function assertFresh(executor: CodeExecutor): Promise<void> {
  assertEquals(executor.state, "lost");
  assertEquals((await executor.execute("'time' in globals()")).text, "False");
  assertEquals(executor.state, "kept");
}

async function assertNothingLeft(root: string): Promise<void> {
  await untilNoneWith(root);
  await assertRejects(() => Deno.stat(root), Deno.errors.NotFound);
}

/** The folder that holds all of the executor's session. */
async function rootOf(executor: CodeExecutor): Promise<string> {
  const { text } = await executor.execute("import os; print(os.environ['HOME'])");
  assertMatch(text ?? "", /\/session\/kernels\/[^/]+$/);
  return (text ?? "").split("/session/")[0] ?? "";
}

function isLauncher([, isolated, bare, script]: readonly string[]): boolean {
  return isolated === "-I" && bare === "-S" && script?.endsWith("/launcher.py") === true;
}

async function find(root: string, isIt: Victim["isIt"]): Promise<number> {
  for (const pid of (await processesWith(root)).sort((a, b) => a - b)) {
    const line = await Deno.readTextFile(`/proc/${pid}/cmdline`).catch(() => ""); // it has ended
    if (isIt(line.split("\0"))) return pid;
  }
  throw new Error("There is no such process");
}

/** Writes what is no frame into the pipe by which a launcher speaks to the host. */
async function writeGarbage(launcher: number): Promise<void> {
  using pipe = await Deno.open(await linkOf(launcher), { write: true });
  await pipe.write(new Uint8Array(64).fill(0xff));
}

/**
 * The pipe that a launcher writes and does not read. Who opens one that it reads itself, while it ends,
 * waits for a reader forever.
 */
async function linkOf(launcher: number): Promise<string> {
  const written = new Map<string, string>();
  const read = new Set<string>();
  for await (const { name } of Deno.readDir(`/proc/${launcher}/fd`)) {
    const path = `/proc/${launcher}/fd/${name}`;
    const pipe = Number(name) > 2 ? await Deno.readLink(path).catch(() => "") : "";
    if (!pipe.startsWith("pipe:")) continue;
    const info = await Deno.readTextFile(`/proc/${launcher}/fdinfo/${name}`);
    if (/^flags:\s+\d*1$/m.test(info)) written.set(pipe, path);
    else read.add(pipe);
  }
  const [[, path] = [], ...more] = [...written].filter(([pipe]) => !read.has(pipe));
  if (path === undefined || more.length > 0) throw new Error("Cannot tell which pipe is the link");
  return path;
}
