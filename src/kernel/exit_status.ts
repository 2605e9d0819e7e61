import { constants } from "node:os";

/** How a process ended: one of both, or neither where nothing is known. */
export interface ExitStatus {
  readonly exitCode: number | null;
  readonly signal: string | null;
}

/** What is likely behind a signal. */
const HINTS: Readonly<Record<string, string>> = {
  SIGKILL: "it was killed (SIGKILL), perhaps as it ran out of memory",
  SIGSEGV: "it crashed (SIGSEGV)",
  SIGBUS: "it crashed (SIGBUS)",
  SIGABRT: "it aborted (SIGABRT)",
  SIGXCPU: "it exceeded its limit of CPU time (SIGXCPU)",
  SIGXFSZ: "it exceeded its limit of file size (SIGXFSZ)",
};

/** Reads the return code of a Python `Popen`, in which a signal is negative. */
export function exitStatus(returnCode: unknown): ExitStatus {
  if (typeof returnCode !== "number") return { exitCode: null, signal: null };
  if (returnCode >= 0) return { exitCode: returnCode, signal: null };
  const [name = `signal ${-returnCode}`] = Object.entries(constants.signals)
    .find(([, number]) => number === -returnCode) ?? [];
  return { exitCode: null, signal: name };
}

/** Says how a process ended, with what is likely behind it. */
export function describeExit({ exitCode, signal }: ExitStatus): string {
  // A shell, and the sandbox, tell a signal as 128 and its number.
  const name = signal ??
    (exitCode !== null && exitCode > 128 ? exitStatus(128 - exitCode).signal : null);
  if (name === null) return `it exited with code ${exitCode}`;
  return HINTS[name] ?? `it was ended by ${name}`;
}
