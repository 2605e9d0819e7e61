/**
 * The log. It never goes to stdout, which belongs to results and to MCP.
 *
 * @module
 */
import { terminalSize, wordRows } from "./terminal.ts";

/** The levels of a {@linkcode Logger}, from everything to nothing. */
export type LogLevel = "debug" | "info" | "warn" | "error" | "silent";

/** Receives ipybox's messages. `console` is one. */
export interface Logger {
  /** Details for troubleshooting. */
  debug(message: string): void;
  /** Messages that a user wants to see while ipybox works. */
  info(message: string): void;
  /** Something is less safe or slower than it could be. */
  warn(message: string): void;
  /** A background error that no caller can catch. */
  error(message: string): void;
}

const LEVELS: readonly LogLevel[] = ["debug", "info", "warn", "error", "silent"];

/**
 * A logger that writes lines to stderr.
 *
 * @param level The lowest level that is written.
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

/** A logger that discards everything. */
export const silentLogger: Logger = stderrLogger("silent");

/** Makes text safe for a terminal: control and invisible characters are shown as escapes. */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, (character) => {
    const code = character.codePointAt(0) ?? 0;
    return code < 0x10000
      ? `\\u${code.toString(16).padStart(4, "0")}`
      : `\\U${code.toString(16).padStart(8, "0")}`;
  });
}

/** Control and format characters except newlines and tabs, and letters that fonts leave blank. */
const UNPRINTABLE =
  /(?![\n\t])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0]/gu;

/** Indents continuation lines, including wrapped ones, so that no text can pass for another message. */
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
  // A synchronous write keeps lines whole and in order, even just before the process exits.
  let bytes = encoder.encode(line + "\n");
  try {
    while (bytes.length > 0) bytes = bytes.subarray(Deno.stderr.writeSync(bytes));
  } catch (error) {
    if (!(error instanceof Deno.errors.BrokenPipe)) throw error; // the reader is gone
  }
}

const LINES_PER_SECOND = 1;
const LINES_AT_ONCE = 20;

/** Limits messages that a server or code can trigger at will. The next that passes says how many were dropped. */
export function limitedLogger(log: Logger): Logger {
  let [left, since, omitted] = [LINES_AT_ONCE, performance.now(), 0];
  const at = (level: "info" | "warn" | "error") => (message: string): void => {
    const now = performance.now();
    left = Math.min(LINES_AT_ONCE, left + (now - since) / 1000 * LINES_PER_SECOND);
    since = now;
    if (left < 1) {
      omitted++;
      return;
    }
    left--;
    if (omitted > 0) log[level](`${omitted} messages before this one were omitted`);
    omitted = 0;
    log[level](message);
  };
  return {
    debug: (message) => log.debug(message),
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
  };
}
