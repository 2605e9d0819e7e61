import { RateLimit } from "./async/rate_limit.ts";
import type { Logger } from "./log.ts";

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
    if (leftOut > 0) log[level](`${leftOut} messages before this one were left out`);
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
