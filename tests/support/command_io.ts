import { silentLogger } from "../../src/base/log.ts";
import type { CommandIo } from "../../src/commands/command.ts";

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
