/**
 * Lines that are chained by hash, so that a change of one shows in all that follow.
 *
 * @module
 */
import { sha256 } from "../json/digest.ts";

/** What the first line of a chain follows. */
export const GENESIS: string = "0".repeat(64);

/** Where the next line goes on. */
export interface ChainEnd {
  /** The number of the last line; 0 before the first. */
  readonly seq: number;
  /** Its hash. */
  readonly hash: string;
}

/** The end of a chain that has no line yet. */
export const NOTHING: ChainEnd = { seq: 0, hash: GENESIS };

/** A line of a chain that was read. */
export interface ChainLine extends ChainEnd {
  /** The hash of the line before. */
  readonly prev: string;
  /** All its fields. */
  readonly fields: Readonly<Record<string, unknown>>;
  /** Whether its hash is that of its text. */
  readonly intact: boolean;
}

const HASH = /,"hash":"([0-9a-f]{64})"\}$/;

/** Writes a line that follows another. */
export function chainLine(fields: string, end: ChainEnd): { line: string; end: ChainEnd } {
  const seq = end.seq + 1;
  const body = `{"seq":${seq},${fields.slice(1, -1)},"prev":"${end.hash}"`;
  const hash = sha256(body);
  return { line: `${body},"hash":"${hash}"}`, end: { seq, hash } };
}

/**
 * Reads a line. The hash is over the text of all that comes before it, so no other spelling of the
 * same JSON passes.
 */
export function readChainLine(bytes: Uint8Array): ChainLine | undefined {
  const line = new TextDecoder().decode(bytes);
  const found = HASH.exec(line);
  const hash = found?.[1];
  if (found === null || hash === undefined) return undefined;
  const fields = parseObject(line);
  if (fields === undefined) return undefined;
  const { seq, prev } = fields;
  if (typeof seq !== "number" || typeof prev !== "string") return undefined;
  return { seq, prev, hash, fields, intact: sha256(line.slice(0, found.index)) === hash };
}

function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value))
      : undefined;
  } catch {
    return undefined; // a torn line
  }
}
