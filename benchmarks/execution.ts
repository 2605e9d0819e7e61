// deno-lint-ignore-file no-console -- it reports to a terminal
/**
 * What an execution costs: in the sandbox, without it, and over ZMQ directly with `jupyter_client`,
 * which is the least that any client of the same kernel can need.
 *
 * Run it with `deno task bench`. The three take turns, so that a machine whose speed drifts does not
 * favour one of them; the ratios are what to quote.
 *
 * @module
 */
import { CodeExecutor, findPython } from "../mod.ts";

const ROUNDS = 5;
const CELLS = 60;

interface Figures {
  readonly start: number;
  readonly empty: number[];
  readonly print: number[];
  readonly large: number;
}

const CODES = {
  empty: "pass",
  print: "print(1)",
  large: "print('x' * (20 * 1024 * 1024))",
};

const workspace = await Deno.makeTempDir({ prefix: "ipybox-bench-" });
const python = (await findPython()).executable;
const subjects: Record<string, () => Promise<Figures>> = {
  "direct ZMQ": () => measureZmq(),
  "ipybox, no sandbox": () => measureExecutor(false),
  "ipybox": () => measureExecutor(true),
};
const results = new Map<string, Figures[]>();
try {
  for (let round = 0; round < ROUNDS; round++) {
    for (const [name, measure] of Object.entries(subjects)) {
      results.set(name, [...results.get(name) ?? [], await measure()]);
    }
  }
} finally {
  await Deno.remove(workspace, { recursive: true });
}
report();

async function measureExecutor(sandbox: boolean): Promise<Figures> {
  const begin = performance.now();
  await using executor = await CodeExecutor.start({
    workspace,
    sandbox,
    log: { debug() {}, info() {}, warn() {}, error: (text) => console.error(text) },
  });
  await executor.execute(CODES.empty);
  const start = performance.now() - begin;
  const time = async (code: string): Promise<number> => {
    const begin = performance.now();
    await executor.execute(code);
    return performance.now() - begin;
  };
  return await measure(start, time);
}

/** The same over ZMQ, by a Python program that times itself. */
async function measureZmq(): Promise<Figures> {
  const script = new URL("zmq_baseline.py", import.meta.url).pathname;
  const { stdout } = await new Deno.Command(python, {
    args: [script, JSON.stringify(CODES), String(CELLS)],
    stderr: "inherit",
  }).output();
  return JSON.parse(new TextDecoder().decode(stdout));
}

async function measure(start: number, time: (code: string) => Promise<number>): Promise<Figures> {
  const repeat = async (code: string): Promise<number[]> => {
    const times: number[] = [];
    for (let cell = 0; cell < CELLS; cell++) times.push(await time(code));
    return times;
  };
  return {
    start,
    empty: await repeat(CODES.empty),
    print: await repeat(CODES.print),
    large: await time(CODES.large),
  };
}

function report(): void {
  const baseline = figuresOf("direct ZMQ");
  console.log(`Milliseconds; ${ROUNDS} rounds of ${CELLS} cells; in brackets, times direct ZMQ\n`);
  const titles = Object.keys(baseline);
  console.log(["".padEnd(20), ...titles.map((title) => title.padStart(18))].join(""));
  for (const name of results.keys()) {
    const cells = Object.entries(figuresOf(name)).map(([title, value]) =>
      `${value.toFixed(1)} (${(value / (baseline[title] ?? NaN)).toFixed(1)})`.padStart(18)
    );
    console.log([name.padEnd(20), ...cells].join(""));
  }
}

function figuresOf(name: string): Record<string, number> {
  const figures = results.get(name) ?? [];
  const all = (key: "empty" | "print") => figures.flatMap((figure) => figure[key]);
  return {
    "start to result": quantile(figures.map(({ start }) => start), 0.5),
    "empty p50": quantile(all("empty"), 0.5),
    "empty p95": quantile(all("empty"), 0.95),
    "print p50": quantile(all("print"), 0.5),
    "20 MB stdout": quantile(figures.map(({ large }) => large), 0.5),
  };
}

function quantile(values: number[], q: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? NaN;
}
