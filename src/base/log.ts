/**
 * Where ipybox says what it is doing. Never stdout: that belongs to results and to MCP.
 *
 * @module
 */
import { RateLimit } from "./rate_limit.ts";
import { terminalSize, wordRows } from "./terminal.ts";

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
  /** A background error that no caller can catch. */
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
    if (LEVELS.indexOf(own) >= least) writeLine(onTerminal(`ipybox: ${prefix}${message}`));
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

/**
 * A text from code, a server or a file, made safe for a terminal.
 *
 * Control characters, and the invisible ones that reorder text, are shown as escapes.
 */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, (character) => {
    const code = character.codePointAt(0) ?? 0;
    return code < 0x10000
      ? `\\u${code.toString(16).padStart(4, "0")}`
      : `\\U${code.toString(16).padStart(8, "0")}`;
  });
}

/** Controls and formats but line ends and tabs, and letters that fonts show nothing for. */
const UNPRINTABLE =
  /(?![\n\t])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0]/gu;

/**
 * A message that no text in it can make look like two. Further lines are indented, and so is the rest
 * of a line that the terminal would break.
 */
function onTerminal(message: string): string {
  const indented = printable(message).replaceAll(/\n(?! {2})/g, "\n  ");
  if (!Deno.stderr.isTerminal()) return indented;
  const { columns } = terminalSize();
  return indented.split("\n").map((line) => {
    const rows = wordRows(line.replaceAll("\t", "    "), columns - 2);
    return rows.map((row, at) => at === 0 ? row : `  ${row}`).join("\n");
  }).join("\n");
}

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

const LINES_PER_SECOND = 1;
const LINES_AT_ONCE = 20;

/**
 * A logger for what a server or code can make happen as often as it likes: a flood of messages is cut
 * short, and a line before the next that passes says how many were left out. Debug messages all pass.
 */
export function limitedLogger(log: Logger): Logger {
  const limit = new RateLimit(LINES_PER_SECOND, LINES_AT_ONCE);
  let leftOut = 0;
  const at = (level: "info" | "warn" | "error") => (message: string): void => {
    if (!limit.take()) {
      leftOut++;
      return;
    }
    if (leftOut > 0) log[level](`${leftOut} messages before this one were omitted`);
    leftOut = 0;
    log[level](message);
  };
  return {
    debug: (message) => log.debug(message),
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
  };
}
