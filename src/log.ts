/**
 * Where ipybox says what it is doing. Never stdout: that belongs to results and to MCP.
 *
 * @module
 */

/** How much a {@linkcode Logger} says, from everything to nothing. */
export type LogLevel = "debug" | "info" | "warn" | "error" | "silent";

/** Takes ipybox's messages. `console` is one. */
export interface Logger {
  /** Details of use when something goes wrong. */
  debug(message: string): void;
  /** What a person would want to know while it works. */
  info(message: string): void;
  /** Something is weaker or slower than it could be. */
  warn(message: string): void;
  /** Something failed that no caller is told of by an exception. */
  error(message: string): void;
}

const LEVELS: readonly LogLevel[] = ["debug", "info", "warn", "error", "silent"];

/**
 * A logger that writes lines to stderr.
 *
 * @param level The least level that is written.
 * @returns The logger.
 *
 * @example
 * ```ts
 * import { stderrLogger } from "@ipybox/ipybox";
 *
 * stderrLogger("info").info("kernel started"); // ipybox: kernel started
 * ```
 */
export function stderrLogger(level: LogLevel = "warn"): Logger {
  const least = LEVELS.indexOf(level);
  const at = (own: LogLevel, prefix: string) => (message: string): void => {
    if (LEVELS.indexOf(own) >= least) writeLine(`ipybox: ${prefix}${message}`);
  };
  return {
    debug: at("debug", ""),
    info: at("info", ""),
    warn: at("warn", "warning: "),
    error: at("error", "error: "),
  };
}

/** A logger that says nothing. */
export const silentLogger: Logger = stderrLogger("silent");

const encoder = new TextEncoder();

function writeLine(line: string): void {
  // A short synchronous write keeps lines whole and in order, also just before the process ends.
  let bytes = encoder.encode(line + "\n");
  try {
    while (bytes.length > 0) bytes = bytes.subarray(Deno.stderr.writeSync(bytes));
  } catch (error) {
    if (!(error instanceof Deno.errors.BrokenPipe)) throw error; // nobody listens any more
  }
}
