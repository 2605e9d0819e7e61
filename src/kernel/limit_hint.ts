import type { EffectiveLimits } from "../sandbox/limits.ts";
import { formatBytes } from "./text.ts";

/** An exception, as a kernel tells it. */
export interface RaisedException {
  readonly ename: string;
  readonly evalue: string;
  readonly traceback: string;
}

/** Names the limit that made code fail, and the option that raises it. */
export function limitHint(raised: RaisedException, limits: EffectiveLimits): string | undefined {
  const { ename, evalue, traceback } = raised;
  const { memoryBytes, processes, fileBytes, cpuSeconds } = limits;
  if (memoryBytes !== null && (/MemoryError$/.test(ename) || /Errno 12\]/.test(evalue))) {
    return hint("memoryBytes", `one process may take ${formatBytes(memoryBytes)} of memory`);
  }
  if (fileBytes !== null && /Errno 27\]|SIGXFSZ/.test(evalue)) {
    return hint("fileBytes", `one file may have ${formatBytes(fileBytes)}`);
  }
  // A socket that would block raises the same exception as a fork that is refused.
  const isFork = /Errno 11\]/.test(evalue) && /fork/.test(traceback);
  if (processes !== null && (isFork || /can't start new thread/.test(evalue))) {
    return hint("processes", `there may be ${processes} processes and threads`);
  }
  if (cpuSeconds !== null && /SIGXCPU/.test(evalue)) {
    return hint("cpuSeconds", `one process may take ${cpuSeconds} s of CPU time`);
  }
  return undefined;
}

/** Names the limit that may have ended a kernel. */
export function deathHint(signal: string | null, limits: EffectiveLimits): string | undefined {
  const { cpuSeconds } = limits;
  if (cpuSeconds === null || (signal !== "SIGXCPU" && signal !== "SIGKILL")) return undefined;
  return hint("cpuSeconds", `one process may take ${cpuSeconds} s of CPU time`);
}

function hint(option: keyof EffectiveLimits, limit: string): string {
  return `[ipybox] A limit is in force: ${limit}. Raise it by limits.${option}, or by ` +
    `--limit ${option}=N on the command line`;
}
