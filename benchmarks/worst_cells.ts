// deno-lint-ignore-file no-console -- it reports to a terminal
/**
 * What one session's worst cells do to another's empty cells, both in one process, as over HTTP.
 *
 * Run it with `deno run -A benchmarks/worst_cells.ts`. The first row is for a session that does
 * nothing. The second is for one that keeps two processors busy,
 * which costs another session time on any host.
 *
 * @module
 */
import { CodeExecutor } from "../mod.ts";
import { quantile, timed } from "./support.ts";

const CELLS: Readonly<Record<string, string>> = {
  "nothing": "import time; time.sleep(3)",
  "two busy processes": `
import subprocess, sys
code = "import time\\nend = time.time() + 3\\nwhile time.time() < end: pass"
for process in [subprocess.Popen([sys.executable, "-c", code]) for _ in range(2)]: process.wait()`,
  "20 MB of output": "print('x' * 20_000_000)",
  "2 million lines": "for n in range(2_000_000): print(n)",
  "a result of 30 MB": "'x' * 30_000_000",
  "a fork bomb": `
import os, time
end = time.time() + 3
while time.time() < end:
    try:
        if os.fork() == 0:
            try:
                while time.time() < end: os.fork()
            finally:
                os._exit(0)
    except OSError:
        pass`,
};

async function start(): Promise<CodeExecutor> {
  const workspace = await Deno.makeTempDir({ prefix: "ipybox-bench-" });
  return await CodeExecutor.start({ workspace, check: "off" });
}

await using noisy = await start();
await using quiet = await start();
for (let n = 0; n < 50; n++) await quiet.execute("");

for (const [name, code] of Object.entries(CELLS)) {
  let runs = true;
  const worst = noisy.execute(code, { timeoutMs: 120_000 }).finally(() => runs = false);
  const times: number[] = [];
  while (runs) times.push(await timed(() => quiet.execute("")));
  await worst;
  await noisy.reset();
  const [p50, p99, most] = [0.5, 0.99, 1].map((share) => quantile(times, share).toFixed(1));
  console.log(`${name}: p50 ${p50} ms, p99 ${p99} ms, longest ${most} ms`);
}
