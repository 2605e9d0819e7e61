import { silentLogger } from "../../src/base/log.ts";
import type { CommandIo } from "../../src/commands/command.ts";
import { runCommandLine } from "../../src/commands/mod.ts";
import type { CliEnd } from "./cli.ts";

function unexpected(): never {
  throw new Error("Nothing is asked here");
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

/** Runs a command line that needs no process of its own, because it starts nothing. */
export async function inThisProcess(args: readonly string[]): Promise<CliEnd> {
  let [stdout, stderr] = ["", ""];
  const io = commandIo({
    out: (text) => void (stdout += text),
    err: (line) => void (stderr += `${line}\n`),
    interactive: false,
    stdoutIsTerminal: false,
    stderrIsTerminal: false,
  });
  const code = await runCommandLine(args, io, "0.0.0");
  return { code, stdout, stderr };
}
