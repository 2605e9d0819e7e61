/** Shows where the time of a start goes: `--trace-startup`, an option of all commands. */
import { listenToStages, type Stage } from "../base/stages.ts";
import type { CommandIo } from "./command.ts";

/** Counts anywhere before `--`. */
const TRACE_STARTUP = "--trace-startup";

export function withoutTrace(args: readonly string[]): readonly string[] {
  const end = args.indexOf("--");
  return args.filter((arg, at) => arg !== TRACE_STARTUP || (end >= 0 && at > end));
}

/** Prints each stage to stderr as it ends, beginning with those that have already ended. */
export async function traceStartup(io: Pick<CommandIo, "err">): Promise<Disposable> {
  const first = await ownStart();
  const print = ({ name, from, to }: Stage) => io.err(row(from - first.from, to - from, name));
  io.err("  from   took  (milliseconds)");
  print(first);
  return listenToStages(print);
}

/** The stage from the start of this process until now. */
async function ownStart(): Promise<Stage> {
  const to = performance.now();
  return { name: "start Deno, load ipybox", from: Math.min(0, to - await ageMs()), to };
}

/** How long this process has existed. Deno's own clock begins a little later. */
async function ageMs(): Promise<number> {
  try {
    const [stat, uptime] = await Promise.all([
      Deno.readTextFile("/proc/self/stat"),
      Deno.readTextFile("/proc/uptime"),
    ]);
    const ticks = Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19]); // hundredths of a second
    return Number(uptime.split(" ")[0]) * 1000 - ticks * 10;
  } catch {
    return 0; // not Linux, or not readable
  }
}

function row(from: number, took: number, name: string): string {
  return `${from.toFixed(0).padStart(6)} ${took.toFixed(0).padStart(6)}  ${name}`;
}
