/**
 * JSON that is passed on unchanged: numbers keep the spelling that a double would lose, such as `1.0`,
 * `-0` and integers above 2^53, because Python and many servers distinguish them.
 *
 * @module
 */
import { parseJson, readJson } from "./plain.ts";

/** A number in its original spelling, made by `JSON.rawJSON()` and kept by `JSON.stringify()`. */
export interface RawNumber {
  /** The number as it was written. */
  readonly rawJSON: string;
}

/** A JSON value whose unusual numbers are {@linkcode RawNumber}s. */
export type ExactJson =
  | null
  | boolean
  | number
  | string
  | RawNumber
  | readonly ExactJson[]
  | ExactObject;

/** A JSON object of exact values. */
export interface ExactObject {
  /** Each value by its name. */
  readonly [name: string]: ExactJson;
}

/** A JSON value for programs: an integer that does not fit a double is a `bigint`. */
export type JsonValue =
  | null
  | boolean
  | number
  | bigint
  | string
  | readonly JsonValue[]
  | JsonObject;

/** A JSON object of values for programs. */
export interface JsonObject {
  /** Each value by its name. */
  readonly [name: string]: JsonValue;
}

interface SourceTextAccess {
  rawJSON(text: string): RawNumber;
  isRawJSON(value: unknown): value is RawNumber;
}

// The engine has these functions, but TypeScript's library does not declare them yet.
const { rawJSON, isRawJSON } = JSON as typeof JSON & SourceTextAccess;

/** Matches every text with a number that a double would spell differently, and some others. */
const UNUSUAL_NUMBER = /-0|\d[.eE]|\d{16}/;

/** The deepest nesting of arguments. Deeper ones cause stack overflows on one of the two sides. */
const MAX_DEPTH = 200;

/** Parses JSON without losing how numbers are spelled, faster than `JSON.parse()` with a function. */
export function parseExact(text: string): ExactJson {
  const value = parseJson(text);
  return UNUSUAL_NUMBER.test(text) ? readJson(text, exactNumber) : value;
}

function exactNumber(source: string): ExactJson {
  const number = Number(source);
  return String(number) === source ? number : rawJSON(source);
}

/** Makes an exact value from a value that `JSON.stringify()` accepts, with `bigint`s as integers. */
export function toExact(value: unknown): ExactJson {
  return parseExact(stringifyExact(value));
}

/** Writes a value as JSON, with exact values unchanged. */
export function stringifyExact(value: unknown): string {
  const text = JSON.stringify(value, (_key, inner: unknown) => {
    if (typeof inner === "bigint") return rawJSON(String(inner));
    if (typeof inner === "number" && !Number.isFinite(inner)) {
      throw new TypeError(`JSON cannot represent the number ${inner}`);
    }
    return inner;
  });
  if (text === undefined) throw new TypeError(`JSON cannot represent a ${typeof value}`);
  return text;
}

/** Converts an exact value to numbers, and integers that do not fit a double to `bigint`s. */
export function toPlain(value: ExactObject): JsonObject;
export function toPlain(value: ExactJson): JsonValue;
export function toPlain(value: ExactJson): JsonValue {
  if (typeof value !== "object" || value === null) return value;
  if (isRawJSON(value)) return plainNumber(value.rawJSON);
  if (isExactList(value)) return Object.freeze(value.map(toPlain));
  // Not by assignment: a key named __proto__ would set the prototype.
  const entries = Object.entries(value).map(([name, inner]) => [name, toPlain(inner)] as const);
  return Object.freeze(Object.fromEntries(entries));
}

/** Checks that a value is an object that can be passed on unchanged, and freezes it. */
export function sealObject(value: ExactJson): ExactObject {
  if (!isExactObject(value)) throw new TypeError("Arguments must be a JSON object");
  seal(value, 0);
  return value;
}

/** Whether an exact value is a JSON object. */
export function isExactObject(value: unknown): value is ExactObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !isRawJSON(value);
}

/** Whether an exact value is a list. `Array.isArray()` does not narrow readonly ones. */
export function isExactList(value: ExactJson | undefined): value is readonly ExactJson[] {
  return Array.isArray(value);
}

/** Whether a value is a number that keeps its own spelling. */
export function isRawNumber(value: unknown): value is RawNumber {
  return isRawJSON(value);
}

function seal(value: ExactJson, depth: number): void {
  if (typeof value !== "object" || value === null) return;
  if (depth > MAX_DEPTH) throw new TypeError(`Arguments nest more than ${MAX_DEPTH} levels deep`);
  if (isRawJSON(value)) {
    if (!Number.isFinite(Number(value.rawJSON))) {
      throw new TypeError(`Number out of range: ${value.rawJSON.slice(0, 40)}`);
    }
    return;
  }
  for (const inner of isExactList(value) ? value : Object.values(value)) seal(inner, depth + 1);
  Object.freeze(value);
}

function plainNumber(source: string): number | bigint {
  const number = Number(source);
  if (Number.isSafeInteger(number) || !/^-?\d+$/.test(source)) return number;
  return BigInt(source);
}

/** Whether a parsed JSON value is an object. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Estimates the memory of a parsed JSON value, without recursion. */
export function weightOf(value: unknown, limit: number = Infinity): number {
  let weight = 0;
  const rest: unknown[] = [value];
  for (let next = rest.pop(); next !== undefined && weight <= limit; next = rest.pop()) {
    weight += VALUE_BYTES;
    if (typeof next === "string") weight += stringBytes(next);
    else if (Array.isArray(next)) { for (const inner of next) rest.push(inner); }
    else if (isRecord(next)) {
      for (const name of Object.keys(next)) {
        weight += VALUE_BYTES + stringBytes(name);
        rest.push(next[name]);
      }
    }
  }
  return weight;
}

/** The memory of a value besides its text; numbers in lists take less, empty objects as much. */
const VALUE_BYTES = 64;

/** V8 stores one byte per character if possible. */
function stringBytes(text: string): number {
  return WIDE.test(text) ? 2 * text.length : text.length;
}

const WIDE = /[\u0100-\uffff]/;
