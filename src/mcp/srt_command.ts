import { basename } from "node:path";
import { ConfigError } from "../errors.ts";

/** What a command line of `srt`, the sandbox runtime, says. */
export interface SrtCommandLine {
  /** The settings file that it names. */
  readonly settings: string | undefined;
  /** The program that it runs. */
  readonly command: string;
  /** The program's arguments. */
  readonly args: readonly string[];
}

/** Reads a server's command line that starts with `srt`. */
export function parseSrtCommand(
  serverName: string,
  command: string,
  args: readonly string[],
): SrtCommandLine | undefined {
  if (basename(command) !== "srt") return undefined;
  let settings: string | undefined;
  for (let at = 0; at < args.length; at++) {
    const [option = "", value] = splitOption(args[at] ?? "");
    switch (option) {
      case "-s":
      case "--settings":
        settings = value ?? args[++at];
        break;
      case "-d":
      case "--debug":
        break;
      default: {
        const [program, ...rest] = args.slice(option === "--" ? at + 1 : at);
        if (program === undefined) break;
        if (!program.startsWith("-")) return { settings, command: program, args: rest };
        throw new ConfigError(
          `Cannot start MCP server "${serverName}": ${program} of srt is not supported here; ` +
            'give "srt" only "--settings FILE" and the command',
        );
      }
    }
  }
  throw new ConfigError(
    `Cannot start MCP server "${serverName}": "srt" is given no command to run`,
  );
}

function splitOption(arg: string): [string, string | undefined] {
  const at = arg.startsWith("--") ? arg.indexOf("=") : -1;
  return at === -1 ? [arg, undefined] : [arg.slice(0, at), arg.slice(at + 1)];
}
