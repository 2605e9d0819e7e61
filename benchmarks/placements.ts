// deno-lint-ignore-file no-console -- it reports to a terminal
/**
 * What placements cost against this machine's sandbox: the start of a session to its first cell, an empty
 * cell, and a tool call, each the least and the median of its rounds. All take turns.
 *
 * `deno run -A benchmarks/placements.ts WORKSPACE [FILE.json…]`: the folder belongs to an ordinary user,
 * and each file is a placement, as `--placement` takes it.
 *
 * @module
 */
import { findPython } from "../kernel.ts";
import { CodeExecutor, type Placement } from "../mod.ts";

const ROUNDS = 5;
const CELLS = 200;

const [workspace = "", ...files] = Deno.args;
const python = (await findPython()).executable;
const server = new URL("../tests/fixtures/mcp/raw_server.ts", import.meta.url).pathname;
const subjects = new Map<string, Placement | undefined>([["local", undefined]]);
for (const file of files) subjects.set(file, JSON.parse(await Deno.readTextFile(file)));

const times = new Map<string, number[]>();
for (let round = 0; round < ROUNDS; round++) {
  for (const [name, placement] of subjects) await measure(name, placement);
}
for (const [what, all] of times) {
  const sorted = all.toSorted((one, other) => one - other);
  const [least = 0, median = 0] = [sorted[0], sorted[Math.floor(sorted.length / 2)]];
  console.log(
    `${what.padEnd(50)} ${least.toFixed(1).padStart(9)} ${median.toFixed(1).padStart(9)} ms`,
  );
}

async function measure(name: string, placement: Placement | undefined): Promise<void> {
  const takes = async (what: string, act: () => Promise<unknown>) => {
    const begin = performance.now();
    await act();
    const key = `${name}: ${what}`;
    times.set(key, [...times.get(key) ?? [], performance.now() - begin]);
  };
  let started: CodeExecutor | undefined;
  // Python of this machine, which ssh to it finds, too; an image has its own.
  const own = placement === undefined || placement.type === "ssh" ? { python } : {};
  await takes("start and first cell", async () => {
    started = await CodeExecutor.start({ workspace, placement, ...own, spareKernel: false });
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
  times.set(`${name}: tool call`, [...times.get(`${name}: tool call`) ?? [], Number(result?.text)]);
  await executor?.unregisterServer("raw");
}
