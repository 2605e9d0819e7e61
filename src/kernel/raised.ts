import type { JsonObject } from "./jupyter.ts";
import { cut } from "./text.ts";
import { cleanTraceback, showMagics } from "./traceback.ts";

/** An exception, as a kernel tells it. */
export interface Raised {
  readonly ename: string;
  readonly evalue: string;
  readonly traceback: readonly string[];
}

/** The longest name of an exception. */
const MAX_NAME_BYTES = 1024;
/** More entries are not looked at one by one. */
const MAX_ENTRIES = 1000;

/**
 * Reads an exception from a message, which executed code may have forged: all of it is cut before
 * anything is looked for in it.
 */
export function raisedIn(content: JsonObject, limit: number): Raised {
  const { ename, evalue, traceback, status } = content;
  return {
    ename: typeof ename === "string" ? cut(ename, MAX_NAME_BYTES) : "Error",
    evalue: typeof evalue === "string"
      ? cut(evalue, limit)
      : `The kernel answered ${
        typeof status === "string" ? cut(status, MAX_NAME_BYTES) : "nothing"
      }`,
    traceback: tracebackIn(traceback, limit),
  };
}

function tracebackIn(traceback: unknown, limit: number): readonly string[] {
  const entries = Array.isArray(traceback)
    ? traceback.filter((entry) => typeof entry === "string")
    : [];
  const whole = entries.join("\n");
  const shortened = cut(whole, limit);
  return shortened === whole && entries.length <= MAX_ENTRIES
    ? cleanTraceback(entries)
    : [showMagics(shortened)]; // frames cannot be told apart in it
}
