/** A public MCP server, run from Deno's cache. */
export const EVERYTHING = {
  command: Deno.execPath(),
  args: ["run", "-A", "-q", "npm:@modelcontextprotocol/server-everything@2026.8.31"],
  env: { DENO_DIR: Deno.env.get("DENO_DIR") ?? `${Deno.env.get("HOME")}/.cache/deno` },
};

/** Measures all subjects in turn, so that a machine whose speed drifts does not favour one of them. */
export async function takeTurns<Result>(
  subjects: Readonly<Record<string, () => Promise<Result>>>,
  rounds: number,
): Promise<Map<string, Result[]>> {
  const results = new Map<string, Result[]>();
  for (let round = 0; round < rounds; round++) {
    for (const [name, measure] of Object.entries(subjects)) {
      results.set(name, [...results.get(name) ?? [], await measure()]);
    }
  }
  return results;
}

/** How many milliseconds something takes. */
export async function timed(act: () => Promise<unknown>): Promise<number> {
  const begin = performance.now();
  await act();
  return performance.now() - begin;
}

/** The same for something that is repeated. */
export async function timesOf(
  count: number,
  act: (at: number) => Promise<unknown>,
): Promise<number[]> {
  const times: number[] = [];
  for (let at = 0; at < count; at++) times.push(await timed(() => act(at)));
  return times;
}

export function quantile(values: readonly number[], share: number): number {
  return values.toSorted((a, b) => a - b)[Math.floor(share * (values.length - 1))] ?? NaN;
}

export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

/** A process of Linux and all below it. */
export async function processesBelow(root: number): Promise<number[]> {
  const found = [root];
  for (const pid of found) found.push(...await childrenOf(pid));
  return found;
}

export async function childrenOf(pid: number): Promise<number[]> {
  const found: number[] = [];
  for await (const { name } of Deno.readDir(`/proc/${pid}/task`)) {
    const children = await Deno.readTextFile(`/proc/${pid}/task/${name}/children`);
    found.push(...children.split(" ").filter(Boolean).map(Number));
  }
  return found;
}

/** A process's memory in MiB (PSS), in which what several have in common counts by their shares. */
export async function memoryOf(pid: number): Promise<number> {
  // Threads of the system have none, and others may just have ended.
  const rollup = await Deno.readTextFile(`/proc/${pid}/smaps_rollup`).catch(() => "");
  return Number(/^Pss:\s+(\d+)/m.exec(rollup)?.[1] ?? 0) / 1024;
}
