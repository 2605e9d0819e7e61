// deno-lint-ignore-file no-console -- it reports to a terminal
/**
 * What placements cost against this machine's sandbox, in time and memory: a session's first start and
 * later ones until the first cell has run, an empty cell, a tool call, and what each of many sessions
 * takes at once, one of which is killed: the others must have kept their values.
 *
 * `deno run -A benchmarks/placements.ts FOLDER [FILE.json…]`, on Linux: the folder is empty and belongs to
 * an ordinary user, and each file is a placement, as `--placement` takes it. `--rounds` (5) says how often
 * times are taken, in turns; `--sessions` (10) how many there are at once, after that.
 *
 * @module
 */
import { parseArgs } from "node:util";
import { findPython } from "../kernel.ts";
import { type CodeExecutor, KernelDiedError, type Placement } from "../mod.ts";
import { startOwn } from "../src/executor/code_executor.ts";
import { childrenOf, median, memoryOf, processesBelow, timed } from "./support.ts";

const CELLS = 200;
/** How many sessions start at the same time. */
const STARTING = 4;

const { values: options, positionals: [folder = "", ...files] } = parseArgs({
  args: Deno.args,
  options: {
    rounds: { type: "string", default: "5" },
    sessions: { type: "string", default: "10" },
  },
  allowPositionals: true,
});
const python = (await findPython()).executable;
const server = new URL("../tests/fixtures/mcp/raw_server.ts", import.meta.url).pathname;
const times = new Map<string, number[]>();

async function main(): Promise<void> {
  const subjects = new Map<string, Placement | undefined>([["local", undefined]]);
  for (const file of files) subjects.set(file, JSON.parse(await Deno.readTextFile(file)));
  for (let round = 0; round < Number(options.rounds); round++) {
    for (const [name, placement] of subjects) await measure(name, placement, round);
  }
  console.log(`${"".padEnd(50)} ${"least".padStart(9)} ${"median".padStart(9)}`);
  for (const [what, all] of [...times].sort(([one], [other]) => one < other ? -1 : 1)) {
    const columns = [Math.min(...all), median(all)].map((time) => time.toFixed(1).padStart(9));
    console.log(`${what.padEnd(50)} ${columns.join(" ")} ms`);
  }
  for (const [name, placement] of subjects) await weigh(name, placement, Number(options.sessions));
}

async function start(workspace: string, placement: Placement | undefined): Promise<CodeExecutor> {
  // Python of this machine, which ssh to it finds, too; an image has its own.
  const own = placement === undefined || placement.type === "ssh" ? { python } : {};
  const options = { workspace: await workspaceIn(workspace), placement, spareKernel: false };
  return await startOwn({ ...options, ...own });
}

/** Makes a workspace that belongs to whom the folder belongs: code in containers must not be root. */
async function workspaceIn(name: string): Promise<string> {
  const path = `${folder}/${name}`;
  await Deno.mkdir(path, { recursive: true });
  const { uid, gid } = await Deno.stat(folder);
  if (Deno.uid() === 0) await Deno.chown(path, uid, gid);
  return path;
}

async function measure(
  name: string,
  placement: Placement | undefined,
  round: number,
): Promise<void> {
  const takes = async (what: string, act: () => Promise<unknown>) => {
    add(`${name}: ${what}`, await timed(act));
  };
  let started: CodeExecutor | undefined;
  await takes(round === 0 ? "first start and cell" : "later start and cell", async () => {
    started = await start("one", placement);
    await started.execute("1");
  });
  await using executor = started;
  for (let i = 0; i < CELLS; i++) {
    await takes("empty cell", async () => await executor?.execute(""));
  }
  await executor?.registerServer("raw", {
    command: Deno.execPath(),
    args: ["run", "-A", "--no-config", "--no-lock", server],
  });
  const calls = `from mcptools.raw import echo
import time
echo.run(echo.Params())
begin = time.perf_counter()
for _ in range(100): echo.run(echo.Params())
(time.perf_counter() - begin) * 10`;
  const result = await executor?.execute(calls);
  add(`${name}: tool call`, Number(result?.text));
  await executor?.unregisterServer("raw");
}

function add(what: string, time: number): void {
  times.set(what, [...times.get(what) ?? [], time]);
}

/** Starts sessions, has each keep a value, kills one, and says what each takes. */
async function weigh(
  name: string,
  placement: Placement | undefined,
  count: number,
): Promise<void> {
  await using executors = new AsyncDisposableStack();
  const before = await memory();
  const sessions: CodeExecutor[] = [];
  let next = 0;
  const startSome = async () => {
    while (next < count - 1) {
      const number = next++;
      const executor = executors.use(await start(`many${number}`, placement));
      await executor.execute(`value = ${number}`);
      sessions[number] = executor;
    }
  };
  await Promise.all(Array.from({ length: STARTING }, startSome));
  const others = await childrenOf(Deno.pid);
  const victim = executors.use(await start("victim", placement));
  const after = await memory();
  const each = (now: number, then: number) => ((now - then) / count).toFixed(1).padStart(9);
  console.log(`${name}: MiB (PSS) of each of ${count} sessions:`);
  console.log(
    `${"  of this process and those below it".padEnd(50)} ${each(after.own, before.own)}`,
  );
  console.log(`${"  of all processes of this machine".padEnd(50)} ${each(after.all, before.all)}`);

  const running = victim.execute("import time; time.sleep(600)").catch((error: unknown) => error);
  for (const pid of await childrenOf(Deno.pid)) {
    if (!others.includes(pid)) Deno.kill(pid, "SIGKILL");
  }
  const died = await running;
  if (!(died instanceof KernelDiedError)) throw new Error(`Not a death: ${Deno.inspect(died)}`);
  for (const [number, executor] of sessions.entries()) {
    const { text } = await executor.execute("value");
    if (text !== `${number}`) throw new Error(`Session ${number} has ${text}`);
  }
  console.log(`  one was killed, and ${sessions.length} have kept their values`);
}

/** The memory of processes in MiB. */
async function memory(): Promise<{ readonly own: number; readonly all: number }> {
  const ours = await processesBelow(Deno.pid);
  let [own, all] = [0, 0];
  for await (const { name } of Deno.readDir("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const size = await memoryOf(Number(name));
    all += size;
    if (ours.includes(Number(name))) own += size;
  }
  return { own, all };
}

await main();
