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
export function traceStartup(io: Pick<CommandIo, "err">): Disposable {
  const print = ({ name, from, to }: Stage) => io.err(row(from, to - from, name));
  io.err("  from   took  (milliseconds)");
  print({ name: "load ipybox", from: 0, to: performance.now() });
  return listenToStages(print);
}

function row(from: number, took: number, name: string): string {
  return `${from.toFixed(0).padStart(6)} ${took.toFixed(0).padStart(6)}  ${name}`;
}
