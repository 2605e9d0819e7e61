// deno-lint-ignore-file no-console -- it reports to a terminal
/**
 * What an execution costs: in the sandbox, without it, and over ZMQ directly with `jupyter_client`,
 * which is the least that any client of the same kernel can need.
 *
 * Run it with `deno task bench`. `IPYBOX_REFERENCE_PYTHON` may name a Python with the reference:
 * `python3 -m venv DIR && DIR/bin/pip install ipybox "mcp<2"`. They all take turns, so that a machine whose speed drifts does not
 * favour one of them; the ratios are what to quote.
 *
 * @module
 */
import { findPython } from "../kernel.ts";
import { CodeExecutor, type Logger } from "../mod.ts";
import { median, quantile, takeTurns, timed, timesOf } from "./support.ts";

/** How often all take their turn; the first argument. */
const ROUNDS = Number(Deno.args[0] ?? 2);
/** Also the number of those before them that are not timed, until all caches are warm. */
const CELLS = 80;
const RESETS = 3;

interface Figures {
  readonly start: number;
  readonly empty: number[];
  readonly print: number[];
  readonly large: number;
  /** Only of those that can do it. */
  readonly cancel?: number[];
  readonly reset?: number[];
  readonly afterReset?: number[];
}

const CODES = {
  empty: "pass",
  print: "print(1)",
  large: "print('x' * (20 * 1024 * 1024))",
};

async function main(): Promise<void> {
  const workspace = await Deno.makeTempDir({ prefix: "ipybox-bench-" });
  try {
    report(await takeTurns(await subjectsIn(workspace), ROUNDS));
  } finally {
    await Deno.remove(workspace, { recursive: true });
  }
}

/** What is measured, by its name, in the order in which they take turns. */
async function subjectsIn(workspace: string): Promise<Record<string, () => Promise<Figures>>> {
  const python = (await findPython()).executable;
  const subjects = {
    // By a program that times itself.
    "direct ZMQ": () => runPython({ python, workspace }, "zmq_baseline.py"),
    "ipybox, no sandbox": () => measureExecutor(workspace, false),
    "ipybox": () => measureExecutor(workspace, true),
  };
  const reference = Deno.env.get("IPYBOX_REFERENCE_PYTHON");
  if (reference === undefined) {
    console.log("Without the reference: IPYBOX_REFERENCE_PYTHON names no Python that has it\n");
    return subjects;
  }
  return {
    ...subjects,
    "the reference": () =>
      runPython({ python: reference, workspace }, "reference.py", [String(RESETS)]),
  };
}

async function measureExecutor(workspace: string, sandbox: boolean): Promise<Figures> {
  const log = new ReadyKernels();
  const begin = performance.now();
  await using executor = await CodeExecutor.start({ workspace, sandbox, log, check: "off" });
  await executor.execute(CODES.empty);
  const start = performance.now() - begin;
  await log.next(2); // the spare one: its start would take half of the machine from what is timed
  const time = (code: string) => timed(() => executor.execute(code));
  const repeat = (code: string) => timesOf(CELLS, () => executor.execute(code));
  await repeat(CODES.empty);
  const [empty, print] = [await repeat(CODES.empty), await repeat(CODES.print)];
  const large = await time(CODES.large);
  const [cancel, reset, afterReset]: [number[], number[], number[]] = [[], [], []];
  for (let count = 0; count < RESETS; count++) {
    cancel.push(await timeCancel(executor));
    reset.push(await timed(() => executor.reset()));
    afterReset.push(await time(CODES.empty));
    await log.next(1); // until there is a spare kernel again
  }
  return { start, empty, print, large, cancel, reset, afterReset };
}

/** Counts the kernels that got ready. */
class ReadyKernels implements Logger {
  #ready = 0;
  #seen = 0;
  #changed = Promise.withResolvers<void>();

  debug(message: string): void {
    if (!/^kernel \S+ is ready$/.test(message)) return;
    this.#ready++;
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }

  info(): void {}
  warn(): void {}

  error(message: string): void {
    console.error(message);
  }

  /** Waits for so many more than the last time. */
  async next(count: number): Promise<void> {
    this.#seen += count;
    while (this.#ready < this.#seen) await this.#changed.promise;
  }
}

/** From the wish to cancel code that sleeps until the kernel is ready for more. */
async function timeCancel(executor: CodeExecutor): Promise<number> {
  const code = "import time; print(1, flush=True); time.sleep(60)";
  let begin = 0;
  for await (const _event of executor.stream(code, { events: ["chunk"] })) {
    begin = performance.now();
    executor.cancel();
  }
  return performance.now() - begin;
}

/** The figures that a Python program beside this one prints. */
async function runPython(
  where: { readonly python: string; readonly workspace: string },
  script: string,
  args: readonly string[] = [],
): Promise<Figures> {
  const path = new URL(script, import.meta.url).pathname;
  const { stdout, stderr, success } = await new Deno.Command(where.python, {
    args: [path, JSON.stringify(CODES), String(CELLS), ...args],
    cwd: where.workspace,
  }).output();
  if (!success) {
    throw new Error(`${where.python} ${path} failed: ${new TextDecoder().decode(stderr)}`);
  }
  return JSON.parse(new TextDecoder().decode(stdout));
}

function report(results: ReadonlyMap<string, readonly Figures[]>): void {
  const baseline = figuresOf(results.get("direct ZMQ") ?? []);
  console.log(`Milliseconds; ${ROUNDS} rounds of ${CELLS} cells; in brackets, times direct ZMQ\n`);
  const titles = Object.keys(baseline);
  console.log(["".padEnd(20), ...titles.map((title) => title.padStart(19))].join(""));
  for (const [name, figures] of results) {
    const cells = Object.entries(figuresOf(figures)).map(([title, value]) => {
      const ratio = value / (baseline[title] ?? NaN);
      const times = Number.isNaN(ratio) ? "" : ` (${ratio.toFixed(1)})`;
      return (Number.isNaN(value) ? "-" : value.toFixed(1) + times).padStart(19);
    });
    console.log([name.padEnd(20), ...cells].join(""));
  }
}

function figuresOf(figures: readonly Figures[]): Record<string, number> {
  const all = (key: "empty" | "print" | "cancel" | "reset" | "afterReset") =>
    figures.flatMap((figure) => figure[key] ?? []);
  return {
    "start to result": median(figures.map(({ start }) => start)),
    "empty p50": median(all("empty")),
    "empty p95": quantile(all("empty"), 0.95),
    "print p50": median(all("print")),
    "20 MB stdout": median(figures.map(({ large }) => large)),
    "cancel p50": median(all("cancel")),
    "reset p50": median(all("reset")),
    "empty after reset": median(all("afterReset")),
  };
}

if (import.meta.main) await main();
