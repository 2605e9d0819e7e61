/**
 * A kernel's answers about code that is being typed. Executed code could forge them, so they are
 * checked.
 *
 * Positions are counted in code points on Jupyter's wire, and in UTF-16 code units here.
 *
 * @module
 */
import { isLowSurrogate } from "./text.ts";
import type { JsonObject } from "./jupyter.ts";

/** How long to wait for a kernel's answer about code being typed. */
export interface TypedCodeOptions {
  /**
   * How long to wait for an answer, in milliseconds: a kernel that runs code answers only after its
   * end, and its first completion takes a second.
   *
   * @default {5000}
   */
  readonly timeoutMs?: number;
  /** Cancels it. */
  readonly signal?: AbortSignal;
}

/** Whether code is complete. */
export interface CodeStatus {
  /** `"incomplete"` code wants more lines; `"invalid"` code has an error that more cannot mend. */
  readonly status: "complete" | "incomplete" | "invalid" | "unknown";
  /** The indentation of the next line of incomplete code: spaces and tabs. */
  readonly indent: string;
}

/** The completions at a position of code. */
export interface CodeCompletions {
  /** The texts, each of which can replace the code from `start` to `end`. */
  readonly matches: readonly string[];
  /** The start of the code that they replace, as an index of its string. */
  readonly start: number;
  /** The end of the code that they replace. */
  readonly end: number;
}

/** The default of {@linkcode TypedCodeOptions.timeoutMs}. */
export const TYPED_CODE_TIMEOUT_MS = 5000;

/** The limits on the number of matches and on the length of each. */
const MAX_MATCHES = 10_000;
const MAX_MATCH_LENGTH = 1000;
const MAX_INDENT = 1000;

const STATUSES = ["complete", "incomplete", "invalid", "unknown"] as const;

/** Reads the reply to an `is_complete_request`. */
export function codeStatus(reply: JsonObject): CodeStatus {
  const status = STATUSES.find((known) => known === reply.status) ?? "unknown";
  const { indent } = reply;
  const usable = status === "incomplete" && typeof indent === "string" &&
    indent.length <= MAX_INDENT && /^[ \t]*$/.test(indent);
  return { status, indent: usable ? indent : "" };
}

/** Reads the reply to a `complete_request`. */
export function codeCompletions(reply: JsonObject, code: string): CodeCompletions {
  const { status, matches, cursor_start: first, cursor_end: last } = reply;
  const none = { matches: [], start: code.length, end: code.length };
  if (status !== "ok" || !Array.isArray(matches)) return none;
  const start = fromCodePoints(code, first);
  const end = fromCodePoints(code, last);
  if (start === undefined || end === undefined || start > end) return none;
  const usable = matches.slice(0, MAX_MATCHES).filter((match): match is string =>
    typeof match === "string" && match.length <= MAX_MATCH_LENGTH
  );
  return { matches: [...new Set(usable)], start, end };
}

/** A position in code points. */
export function toCodePoints(code: string, index: number): number {
  const inside = Number.isInteger(index) && index >= 0 && index <= code.length;
  if (!inside || isLowSurrogate(code, index) && isHighSurrogate(code, index - 1)) {
    throw new RangeError(
      `The cursor must be between two characters of the code, not at ${index}`,
    );
  }
  let points = 0;
  for (const _character of code.slice(0, index)) points++;
  return points;
}

/** The index of a position in code points, or `undefined` for a position outside of the code. */
function fromCodePoints(code: string, points: unknown): number | undefined {
  if (typeof points !== "number" || !Number.isInteger(points) || points < 0) return undefined;
  let index = 0;
  let left = points;
  for (const character of code) {
    if (left-- === 0) return index;
    index += character.length;
  }
  return left === 0 ? index : undefined;
}

function isHighSurrogate(text: string, index: number): boolean {
  return (text.charCodeAt(index) & 0xfc00) === 0xd800;
}
