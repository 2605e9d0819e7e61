/**
 * The generator's JSON values: objects are maps, so that `__proto__` is an ordinary name, and numbers
 * keep their source text, so that none is rounded.
 *
 * @module
 */

export type Json = null | boolean | string | JsonNumber | readonly Json[] | JsonObject;

export type JsonObject = ReadonlyMap<string, Json>;

/** A finite JSON number with its source text. */
export class JsonNumber {
  constructor(readonly source: string, readonly exact: boolean = true) {}

  /** The nearest double. */
  get value(): number {
    return Number(this.source);
  }

  /** Its value if it is an integer, even if written as 1.0 or 1e3. */
  get integer(): bigint | undefined {
    if (/^-?\d+$/.test(this.source)) return BigInt(this.source);
    return Number.isSafeInteger(this.value) ? BigInt(this.value) : undefined;
  }
}

/** Access to the source text of numbers, which TypeScript's library does not declare yet. */
interface SourceTextAccess {
  isRawJSON(value: unknown): value is { readonly rawJSON: string };
}

const { isRawJSON } = JSON as typeof JSON & SourceTextAccess;

/** Deeper levels are written on one line, as they would be mostly indentation. */
const MAX_INDENTED = 20;

/** The deepest nesting that is read. The rest of the generator recurses over it. */
const MAX_DEPTH = 64;

/** The largest definition of a tool that is read, in bytes. Real ones have up to 20 KB. */
const MAX_DEFINITION = 256 * 1024;

/** The longest number that is read. Python refuses integers of more than 4,300 digits. */
const MAX_DIGITS = 1_000;

/** Parses a server's JSON about a tool or itself; throws a `RangeError` if it is too deep or too large. */
export function readDefinition(value: unknown): Json | undefined {
  const json = toJson(value);
  const text = json === undefined ? "" : writeJson(json);
  if (new TextEncoder().encode(text).length <= MAX_DEFINITION) return json;
  throw new RangeError(`it has more than ${MAX_DEFINITION / 1024} KiB`);
}

/** Converts the result of `JSON.parse()`. Numbers can also be `bigint`s or raw JSON. */
export function toJson(value: unknown): Json | undefined {
  return read(value, 0);
}

function read(value: unknown, depth: number): Json | undefined {
  if (depth > MAX_DEPTH) throw new RangeError(`it nests more than ${MAX_DEPTH} levels deep`);
  switch (typeof value) {
    case "string":
      return value;
    case "boolean":
      return value;
    case "number":
      return readNumber(JSON.stringify(value), value);
    case "bigint":
      return readNumber(String(value), Number(value), true);
    case "object":
      return readObject(value, depth);
    default:
      return undefined;
  }
}

function readObject(value: object | null, depth: number): Json | undefined {
  if (value === null || value instanceof JsonNumber) return value;
  if (isRawJSON(value)) return readNumber(value.rawJSON, Number(value.rawJSON), true);
  if (Array.isArray(value)) {
    const items: Json[] = [];
    // A loop rather than a callback saves stack at each level of nesting.
    for (const item of value) items.push(read(item, depth + 1) ?? null);
    return items;
  }
  const entries = value instanceof Map ? value : Object.entries(value);
  const object = new Map<string, Json>();
  for (const [name, inner] of entries) {
    const json = read(inner, depth + 1);
    if (json !== undefined) object.set(String(name), json);
  }
  return object;
}

function readNumber(source: string, value: number, exact = false): Json | undefined {
  if (!Number.isFinite(value) || source.length > MAX_DIGITS) return undefined;
  return new JsonNumber(source, exact || !Number.isInteger(value) || Number.isSafeInteger(value));
}

export function writeJson(value: Json, indent = 0): string {
  return write(value, indent, "\n");
}

function write(value: Json, indent: number, lineBreak: string): string {
  if (isObject(value)) {
    const entries = [...value].map(([name, inner]) =>
      `${JSON.stringify(name)}:${indent ? " " : ""}${
        write(inner, indent, deeper(lineBreak, indent))
      }`
    );
    return bracketed("{}", entries, indent, lineBreak);
  }
  if (isArray(value)) {
    const items = value.map((item) => write(item, indent, deeper(lineBreak, indent)));
    return bracketed("[]", items, indent, lineBreak);
  }
  return value instanceof JsonNumber ? value.source : JSON.stringify(value);
}

function deeper(lineBreak: string, indent: number): string {
  return lineBreak + " ".repeat(indent);
}

function bracketed(
  [open, close]: "{}" | "[]",
  parts: readonly string[],
  indent: number,
  lineBreak: string,
): string {
  if (indent === 0 || parts.length === 0 || lineBreak.length > indent * MAX_INDENTED) {
    return open + parts.join(",") + close;
  }
  const inner = deeper(lineBreak, indent);
  return open + inner + parts.join("," + inner) + lineBreak + close;
}

export function isObject(value: Json | undefined): value is JsonObject {
  return value instanceof Map;
}

export function isArray(value: Json | undefined): value is readonly Json[] {
  return Array.isArray(value);
}

/** A string value; `""` for any other. */
export function textOf(value: Json | undefined): string {
  return typeof value === "string" ? value : "";
}

/** A string that is the same for equal values. 1 equals 1.0, and the order of names does not count. */
export function keyOf(value: Json): string {
  if (value instanceof JsonNumber) return String(value.integer ?? value.value);
  if (isArray(value)) return `[${value.map(keyOf).join()}]`;
  if (isObject(value)) {
    const entries = [...value].map(([name, inner]) => `${JSON.stringify(name)}:${keyOf(inner)}`);
    return `{${entries.sort().join()}}`;
  }
  return JSON.stringify(value);
}

/** Compares numbers, exactly if both are integers. */
export function compareNumbers(left: JsonNumber, right: JsonNumber): number {
  if (left.integer !== undefined && right.integer !== undefined) {
    return left.integer < right.integer ? -1 : left.integer > right.integer ? 1 : 0;
  }
  return left.value - right.value;
}
