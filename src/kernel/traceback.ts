import { constants } from "node:os";
import type { ExitStatus } from "../process/managed_process.ts";
import type { EffectiveLimits } from "../sandbox/limits.ts";
import type { JsonObject } from "./jupyter.ts";
import type { Output } from "./outputs.ts";
import { cut, formatBytes, withoutEscapes } from "./text.ts";

/** Shows the user's code in a traceback: no frames of ipybox, and magics as they were written. */
export function cleanTraceback(traceback: readonly string[]): string[] {
  return traceback.filter((entry) => !isOwnFrame(entry)).map(showMagics);
}

/** Whether a frame is ipybox's own. */
function isOwnFrame(entry: string): boolean {
  const [first = ""] = entry.split("\n", 1);
  const folder = RUNTIME.exec(first);
  return first.startsWith("File ") && folder !== null && /:\d/.test(first.slice(folder.index));
}

const RUNTIME = /[\\/]ipybox_runtime[\\/]/;

/** Shows `!command`, `%magic` and `%%magic` instead of the calls that IPython turns them into. */
function showMagics(entry: string): string {
  let shown = "";
  let done = 0;
  for (let at = entry.indexOf(SHELL), next; at !== -1; at = entry.indexOf(SHELL, next)) {
    next = at + SHELL.length;
    const call = callAt(entry, next);
    if (call === undefined) continue;
    next = call.end;
    const before = entry.slice(done, at);
    const isAssigned = before.trimEnd().endsWith("=");
    shown += before + call.show(isAssigned);
    done = call.end;
  }
  return shown + entry.slice(done);
}

const SHELL = "get_ipython().";

/** The calls that IPython generates, and how many literals each takes. */
const CALLS: readonly {
  readonly start: string;
  readonly count: number;
  readonly show: (literals: readonly string[], isAssigned: boolean) => string;
}[] = [
  { start: "system(", count: 1, show: ([command]) => `!${command}` },
  {
    start: "getoutput(",
    count: 1,
    show: ([command], isAssigned) => `${isAssigned ? "!" : "!!"}${command}`,
  },
  { start: "run_line_magic(", count: 2, show: ([name, rest]) => `%${name} ${rest}` },
  {
    start: "run_cell_magic(",
    count: 3,
    show: ([name, rest, body]) => `${`%%${name} ${rest}`.trimEnd()}\n${body}`,
  },
];

/** The call at a position of a text, read character by character, which is linear. */
function callAt(
  text: string,
  at: number,
): { readonly show: (isAssigned: boolean) => string; readonly end: number } | undefined {
  const call = CALLS.find(({ start }) => text.startsWith(start, at));
  if (call === undefined) return undefined;
  const literals: string[] = [];
  for (let from = at + call.start.length;;) {
    const end = endOfLiteral(text, from);
    if (end === undefined) return undefined;
    literals.push(unquoted(text.slice(from, end)));
    const isLast = literals.length === call.count;
    const separator = isLast ? ")" : ", ";
    if (!text.startsWith(separator, end)) return undefined;
    from = end + separator.length;
    if (isLast) return { show: (isAssigned) => call.show(literals, isAssigned), end: from };
  }
}

/** The end of a Python string literal, as `repr` and IPython's transformations write it. */
function endOfLiteral(text: string, start: number): number | undefined {
  const quote = text[start];
  if (quote !== "'" && quote !== '"') return undefined;
  for (let at = start + 1; at < text.length && text[at] !== "\n"; at++) {
    if (text[at] === quote) return at + 1;
    if (text[at] === "\\") at++;
  }
  return undefined;
}

const ESCAPES: Readonly<Record<string, string>> = { n: "\n", t: "\t", r: "\r" };
const LAST_CODE_POINT = 0x10ffff;

/** The value of a Python string literal, as `repr()` and IPython's transformations write it. */
function unquoted(literal: string): string {
  return literal.slice(1, -1).replace(
    /\\(x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|.)/gs,
    (whole, escape: string) => {
      if (escape.length <= 1) return ESCAPES[escape] ?? escape;
      const code = parseInt(escape.slice(1), 16);
      return code <= LAST_CODE_POINT ? String.fromCodePoint(code) : whole; // forged
    },
  );
}

/** An exception, as a kernel reports it. */
export type Raised = Omit<Extract<Output, { type: "error" }>, "type">;

/** The longest name of an exception, in bytes. */
const MAX_NAME_BYTES = 1024;
/** The limit on a traceback's entries. */
const MAX_ENTRIES = 1000;

/** Reads an exception, which code may have forged: all is cut to its limit before it is searched. */
export function raisedIn(content: JsonObject, limit: number): Raised {
  const { ename, evalue, traceback, status } = content;
  return {
    ename: typeof ename === "string" ? cut(ename, MAX_NAME_BYTES) : "Error",
    evalue: typeof evalue === "string"
      ? withoutEscapes(cut(evalue, limit))
      : `The kernel answered ${
        typeof status === "string" ? cut(status, MAX_NAME_BYTES) : "nothing"
      }`,
    traceback: tracebackIn(traceback, limit),
  };
}

function tracebackIn(traceback: unknown, limit: number): readonly string[] {
  const entries = Array.isArray(traceback)
    ? traceback.filter((entry) => typeof entry === "string").map(withoutEscapes)
    : [];
  const whole = entries.join("\n");
  const shortened = cut(whole, limit);
  return shortened === whole && entries.length <= MAX_ENTRIES
    ? cleanTraceback(entries)
    : [showMagics(shortened)]; // its frames cannot be separated
}

/** Reports that a server has no Python API; where to find one also depends on the reader. */
export function missingServer(
  { ename, evalue }: Pick<Raised, "ename" | "evalue">,
): string | undefined {
  if (ename !== "ModuleNotFoundError") return undefined;
  // The check adds the registered servers if none has a similar name.
  const [found, server] =
    /^No module named 'mcptools(?:\.(\w{1,100}))?'(?:$|\. Registered)/.exec(evalue) ?? [];
  if (found === undefined) return undefined;
  return server === undefined
    ? "[ipybox] No MCP server is registered here"
    : `[ipybox] No Python API of a server "${server}" here`;
}

/** Names the limit that may have killed a kernel. */
export function deathHint(
  { signal, stderrTail, outOfMemory }: {
    readonly signal: string | null;
    /** Its last output. */
    readonly stderrTail: string;
    /** Whether the system reports that. */
    readonly outOfMemory: boolean;
  },
  { memoryBytes, cpuSeconds }: EffectiveLimits,
): string | undefined {
  if (memoryBytes !== null && (outOfMemory || NO_MEMORY.test(stderrTail))) {
    return hint("memoryBytes", `${formatBytes(memoryBytes)} of memory`);
  }
  if (cpuSeconds === null || (signal !== "SIGXCPU" && signal !== "SIGKILL")) return undefined;
  return hint("cpuSeconds", `${cpuSeconds} s of CPU time per process`);
}

/** How processes report that they cannot allocate memory; V8's heap has its own limit. */
const NO_MEMORY =
  /^[\w.]*(?<!OutOf)MemoryError\b|bad_alloc|[Cc]annot allocate memory|^memory allocation of |Sanitizer failed to allocate/m;

/** Explains a text in which a process says that it cannot allocate memory. */
export function memoryNote(text: string): string | undefined {
  if (!NO_MEMORY.test(text)) return undefined;
  return "[ipybox] A process may use only as much memory as limits.memoryBytes allows. Raise it " +
    "with --limit memoryBytes=N on the command line";
}

function hint(option: keyof EffectiveLimits, limit: string): string {
  return `[ipybox] A limit applies: ${limit}. Raise it with limits.${option}, or with ` +
    `--limit ${option}=N on the command line`;
}

/** The frames outside the user's in the stack of a fatal error, which is innermost first. */
const OWN_FRAMES =
  /(\n {2}File "[^"\n]*\/IPython\/core\/interactiveshell\.py", line \d+ in run_code)(?:\n {2}File [^\n]*)*/g;

/** The list of extension modules after that stack: every kernel loads them. */
const EXTENSION_MODULES = /(?<!\n)\n+Extension modules: [^\n]*/g;

/** The stderr of a process since an earlier moment; of a crash's stack, only the user's frames. */
export function lastWords(before: string, now: string): string {
  return writtenSince(before, now).replace(OWN_FRAMES, "").replace(EXTENSION_MODULES, "");
}

/** The text added to a buffer that keeps only the last whole lines. */
function writtenSince(before: string, now: string): string {
  for (let start = 0;;) {
    const kept = before.slice(start);
    if (now.startsWith(kept)) return now.slice(kept.length);
    const end = before.indexOf("\n", start);
    if (end === -1) return now;
    start = end + 1;
  }
}

/** The likely cause of a signal. */
const HINTS: Readonly<Record<string, string>> = {
  SIGKILL: "it was killed (SIGKILL), perhaps because it ran out of memory",
  SIGSEGV: "it crashed (SIGSEGV)",
  SIGBUS: "it crashed (SIGBUS)",
  SIGABRT: "it aborted (SIGABRT)",
  SIGXCPU: "it exceeded its CPU time limit (SIGXCPU)",
  SIGXFSZ: "it exceeded its file size limit (SIGXFSZ)",
};

/** Reads the return code of a Python `Popen`, in which a signal is negative. */
export function exitStatus(returnCode: unknown): ExitStatus {
  if (typeof returnCode !== "number") return { exitCode: null, signal: null };
  if (returnCode >= 0) return { exitCode: returnCode, signal: null };
  const [name = `signal ${-returnCode}`] = Object.entries(constants.signals)
    .find(([, number]) => number === -returnCode) ?? [];
  return { exitCode: null, signal: name };
}

/** Describes how a process ended, with the likely cause. */
export function describeExit({ exitCode, signal }: ExitStatus): string {
  // A shell, and the sandbox, report a signal as 128 plus its number.
  const name = signal ??
    (exitCode !== null && exitCode > 128 ? exitStatus(128 - exitCode).signal : null);
  if (name === null) return `it exited with code ${exitCode}`;
  return HINTS[name] ?? `it was killed by ${name}`;
}
