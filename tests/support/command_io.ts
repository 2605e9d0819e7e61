import { silentLogger } from "../../src/base/log.ts";
import type { CommandIo } from "../../src/commands/command.ts";
import { runCommandLine } from "../../src/commands/mod.ts";
import { type CliEnd, withoutNotices } from "./cli.ts";

function unexpected(question?: unknown): never {
  throw new Error(`Nothing is asked here: ${question}`);
}

/** A terminal for a command, on which nothing is asked or shown, except as given. */
export function commandIo(given: Partial<CommandIo>): CommandIo {
  return {
    out: () => {},
    err: () => {},
    errText: () => {},
    log: silentLogger,
    verboseLog: silentLogger,
    interactive: true,
    stdoutIsTerminal: true,
    stderrIsTerminal: true,
    color: false,
    links: false,
    signal: new AbortController().signal,
    ask: unexpected,
    enter: unexpected,
    lend: (use) => use(),
    keys: unexpected,
    onInterrupt: unexpected,
    ...given,
  };
}

/** Options of {@linkcode inThisProcess}. */
export interface InThisProcessOptions {
  /** The workspace of a command that has `--workspace`, which is else the working directory. */
  readonly workspace?: string;
  /** The answers at a terminal, in order, each with its question's end. Without them there is no terminal. */
  readonly answers?: readonly (readonly [question: string, answer: string])[];
}

/** The access of a command to the outside world, and what it has written there. */
export function capturedIo(
  answers?: InThisProcessOptions["answers"],
): { readonly io: CommandIo; readonly end: (code: number) => CliEnd } {
  let [stdout, stderr] = ["", ""];
  const err = (line: string) => void (stderr += `${line}\n`);
  const left = [...answers ?? []];
  const log = {
    debug: () => {},
    info: (message: string) => err(`ipybox: ${message}`),
    warn: (message: string) => err(`ipybox: warning: ${message}`),
    error: (message: string) => err(`ipybox: error: ${message}`),
  };
  const io = commandIo({
    out: (text) => void (stdout += text),
    err,
    errText: (text) => void (stderr += text),
    log,
    verboseLog: log,
    interactive: answers !== undefined,
    stdoutIsTerminal: false,
    stderrIsTerminal: false,
    ask: (question) => {
      err(question);
      const [expected, answer] = left.shift() ?? [];
      if (answer === undefined || !question.endsWith(`${expected} `)) unexpected(question);
      return Promise.resolve(answer);
    },
  });
  const end = (code: number) => {
    if (left.length > 0) throw new Error(`Not asked: ${left[0]?.[0]}`);
    return { code, stdout, stderr: withoutNotices(stderr) };
  };
  return { io, end };
}

/** Runs a command line that needs no process, environment or terminal of its own. */
export async function inThisProcess(
  args: readonly string[],
  { workspace, answers }: InThisProcessOptions = {},
): Promise<CliEnd> {
  const { io, end } = capturedIo(answers);
  const [name = "", ...others] = args;
  const at = workspace === undefined ? [] : ["--workspace", workspace];
  return end(await runCommandLine([name, ...at, ...others], io, "0.0.0"));
}

/** Gives a function that runs command lines in a workspace as {@linkcode inThisProcess} does. */
export function commandsIn(workspace: string): (args: readonly string[]) => Promise<CliEnd> {
  return (args) => inThisProcess(args, { workspace });
}
