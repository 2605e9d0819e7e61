/**
 * The common shape of JSON values: names and broad types, and no values. The values come from servers,
 * so a shape is bounded in every direction, and names that look like data are no names.
 *
 * @module
 */
import { type ExactJson, isExactList, isRawNumber, isRecord } from "./exact.ts";

/** The types without parts. */
const SCALARS = ["null", "bool", "int", "float", "str"] as const;
type Scalar = typeof SCALARS[number];

/** The shape of observed values. An empty one says nothing, as for the items of empty lists. */
export interface Shape {
  /** The types without parts, each once, in the order of {@linkcode SCALARS}. */
  readonly scalars: readonly Scalar[];
  /** The shape of items, where lists were seen. */
  readonly items?: Shape;
  /** The shape of objects, where objects were seen. */
  readonly object?: ObjectShape;
}

/** The shape of a tool's observed results. */
export interface ObservedResults {
  /** How many results were JSON. */
  readonly calls: number;
  readonly shape: Shape;
}

/** The shape of observed objects. */
type ObjectShape =
  | {
    readonly kind: "record";
    /** How many objects were seen. */
    readonly seen: number;
    readonly fields: ReadonlyMap<string, FieldShape>;
  }
  /** The names are data, such as ids. Once that is found, it stays. */
  | { readonly kind: "mapping"; readonly values: Shape };

/** A name that objects have, and its values. */
export interface FieldShape {
  /** How many of the objects had it. */
  readonly seen: number;
  readonly shape: Shape;
}

/** The greatest depth of a shape; deeper values are ignored. */
const MAX_DEPTH = 8;
/** The most names of an object. One with more is a mapping. */
const MAX_FIELDS = 100;
/** The most fields of a whole shape. One with more is cut at a lower depth. */
const MAX_NODES = 300;
/** The most items of a list to look at. */
const MAX_ITEMS = 100;
/** The most values of a result to look at, or somewhat more. */
const MAX_VISITS = 10_000;
/** Longer names are data. */
const MAX_NAME = 64;
/** Counts stop here. */
const MAX_COUNT = 1e9;

const NOTHING: Shape = { scalars: [] };
const ANY_MAPPING: ObjectShape = { kind: "mapping", values: NOTHING };

/** Finds the shape of one value. */
export function shapeOf(value: ExactJson): Shape {
  return bounded(look(value, MAX_DEPTH, { visits: MAX_VISITS }));
}

/** The joint shape of two sets of results. */
export function mergeResults(one: ObservedResults, other: ObservedResults): ObservedResults {
  return {
    calls: sum(one.calls, other.calls),
    shape: bounded(merge(one.shape, other.shape)),
  };
}

function look(value: ExactJson, depth: number, left: { visits: number }): Shape {
  if (value === null) return { scalars: ["null"] };
  switch (typeof value) {
    case "boolean":
      return { scalars: ["bool"] };
    case "string":
      return { scalars: ["str"] };
    case "number":
      return { scalars: [Number.isInteger(value) ? "int" : "float"] };
  }
  if (isRawNumber(value)) return { scalars: [/[.eE]/.test(value.rawJSON) ? "float" : "int"] };
  const isTooMuch = depth === 0 || left.visits <= 0;
  const lookAt = (inner: ExactJson) => look(inner, depth - 1, left);
  if (isExactList(value)) {
    const items = isTooMuch ? [] : value.slice(0, MAX_ITEMS);
    left.visits -= items.length;
    return { scalars: [], items: items.map(lookAt).reduce(merge, NOTHING) };
  }
  if (isTooMuch) return { scalars: [], object: ANY_MAPPING };
  const names = Object.keys(value);
  left.visits -= Math.min(names.length, MAX_ITEMS);
  const shapes = names.slice(0, MAX_ITEMS).map((name) => lookAt(value[name] ?? null));
  const isMapping = names.length > MAX_FIELDS || names.some(isData) || areAlike(shapes);
  const object: ObjectShape = isMapping
    ? { kind: "mapping", values: shapes.reduce(merge, NOTHING) }
    : {
      kind: "record",
      seen: 1,
      fields: new Map(names.map((name, at) => [name, { seen: 1, shape: shapes[at] ?? NOTHING }])),
    };
  return { scalars: [], object };
}

const NAME = /^[@$#_]?[\p{L}_][\p{L}\p{N}_-]*$/u;

/** Whether a name is data, as `user_17`, `2024`, `a@b.c` and `7f3a-…` are, unlike `line1` and `sha256`. */
function isData(name: string): boolean {
  if (name.length > MAX_NAME || !NAME.test(name) || name === "__proto__") return true;
  const digits = name.match(/\p{N}+/gu) ?? [];
  return digits.length > 1 || digits.some((group) => group.length > 3) || /[_-]\p{N}/u.test(name);
}

/** The most values that a record can have if all are objects with the same fields, or of the same type. */
const MAX_ALIKE_RECORDS = 2;
const MAX_ALIKE_SCALARS = 24;

/** Whether all values are so alike that their names must be ids. */
function areAlike([first, ...others]: readonly Shape[]): boolean {
  if (first === undefined || first.items !== undefined) return false;
  const key = kindOf(first);
  const max = first.object === undefined ? MAX_ALIKE_SCALARS : MAX_ALIKE_RECORDS;
  return key !== undefined && others.length >= max &&
    others.every((shape) => kindOf(shape) === key);
}

function kindOf({ scalars, object }: Shape): string | undefined {
  if (object === undefined) return scalars.join();
  if (object.kind === "mapping" || object.fields.size === 0) return undefined;
  return JSON.stringify([...object.fields.keys()].sort());
}

function merge(one: Shape, other: Shape): Shape {
  const items = both(one.items, other.items, merge);
  const object = both(one.object, other.object, mergeObjects);
  return {
    scalars: SCALARS.filter((type) => one.scalars.includes(type) || other.scalars.includes(type)),
    ...(items === undefined ? {} : { items }),
    ...(object === undefined ? {} : { object }),
  };
}

function mergeObjects(one: ObjectShape, other: ObjectShape): ObjectShape {
  if (one.kind === "mapping" || other.kind === "mapping") {
    return { kind: "mapping", values: merge(valuesOf(one), valuesOf(other)) };
  }
  const fields = new Map(one.fields);
  for (const [name, field] of other.fields) {
    const known = fields.get(name);
    fields.set(name, known === undefined ? field : mergeFields(known, field));
  }
  const object: ObjectShape = { kind: "record", seen: sum(one.seen, other.seen), fields };
  return isDynamic(object) ? { kind: "mapping", values: valuesOf(object) } : object;
}

function mergeFields(one: FieldShape, other: FieldShape): FieldShape {
  return { seen: sum(one.seen, other.seen), shape: merge(one.shape, other.shape) };
}

function valuesOf(object: ObjectShape): Shape {
  if (object.kind === "mapping") return object.values;
  return [...object.fields.values()].map(({ shape }) => shape).reduce(merge, NOTHING);
}

/** Whether the names change from object to object: none is in most objects, and each object has few. */
function isDynamic({ seen, fields }: Extract<ObjectShape, { kind: "record" }>): boolean {
  if (fields.size > MAX_FIELDS) return true;
  const counts = [...fields.values()].map((field) => field.seen);
  const all = counts.reduce((one, other) => one + other, 0);
  return fields.size >= 4 && 4 * all <= fields.size * seen && 2 * Math.max(...counts) <= seen;
}

function both<T>(one: T | undefined, other: T | undefined, join: (one: T, other: T) => T) {
  return one === undefined || other === undefined ? one ?? other : join(one, other);
}

function sum(one: number, other: number): number {
  return Math.min(one + other, MAX_COUNT);
}

/** A shape cut at the greatest depth at which it is not too large. */
function bounded(shape: Shape): Shape {
  let depth = MAX_DEPTH;
  let cut = cutAt(shape, depth);
  while (sizeOf(cut) > MAX_NODES && depth > 1) cut = cutAt(shape, --depth);
  return cut;
}

function cutAt({ scalars, items, object }: Shape, depth: number): Shape {
  const inner = (shape: Shape) => depth === 0 ? NOTHING : cutAt(shape, depth - 1);
  return {
    scalars,
    ...(items === undefined ? {} : { items: inner(items) }),
    ...(object === undefined ? {} : { object: cutObject(object, depth, inner) }),
  };
}

function cutObject(
  object: ObjectShape,
  depth: number,
  inner: (shape: Shape) => Shape,
): ObjectShape {
  if (object.kind === "mapping") return { kind: "mapping", values: inner(object.values) };
  if (depth === 0) return ANY_MAPPING;
  const fields = [...object.fields].map(([name, { seen, shape }]) =>
    [name, { seen, shape: inner(shape) }] as const
  );
  return { ...object, fields: new Map(fields) };
}

function sizeOf({ items, object }: Shape): number {
  const inItems = items === undefined ? 0 : sizeOf(items);
  if (object === undefined) return 1 + inItems;
  if (object.kind === "mapping") return 1 + inItems + sizeOf(object.values);
  return [...object.fields.values()].reduce((size, { shape }) => size + sizeOf(shape), 1 + inItems);
}

// Shapes in files, which others may have written.

/** The shape of results, as JSON. */
export function resultsToJson({ calls, shape }: ObservedResults): Record<string, unknown> {
  return { calls, shape: shapeToJson(shape) };
}

/** Reads the shape of results, as far as it is valid. */
export function resultsFromJson(json: unknown): ObservedResults {
  const { calls, shape } = isRecord(json) ? json : {};
  return { calls: readCount(calls), shape: bounded(read(shape, MAX_DEPTH)) };
}

/** Whether two shapes are the same, regardless of how many values they describe. */
export function isSameShape(one: Shape, other: Shape): boolean {
  return JSON.stringify(outlineOf(one)) === JSON.stringify(outlineOf(other));
}

function outlineOf({ scalars, items, object }: Shape): unknown {
  return [scalars, items && outlineOf(items), object && outlineOfObject(object)];
}

function outlineOfObject(object: ObjectShape): unknown {
  if (object.kind === "mapping") return { values: outlineOf(object.values) };
  return [...object.fields]
    .sort(([one], [other]) => one < other ? -1 : 1)
    .map(([name, { seen, shape }]) => [name, seen >= object.seen, outlineOf(shape)]);
}

function shapeToJson({ scalars, items, object }: Shape): Record<string, unknown> {
  return {
    ...(scalars.length === 0 ? {} : { is: scalars }),
    ...(items === undefined ? {} : { items: shapeToJson(items) }),
    ...(object === undefined ? {} : objectToJson(object)),
  };
}

function objectToJson(object: ObjectShape): Record<string, unknown> {
  if (object.kind === "mapping") return { values: shapeToJson(object.values) };
  const fields = [...object.fields].map(([name, { seen, shape }]) =>
    [name, { seen, ...shapeToJson(shape) }] as const
  );
  return { objects: object.seen, fields: Object.fromEntries(fields) };
}

function read(json: unknown, depth: number): Shape {
  if (!isRecord(json) || depth < 0) return NOTHING;
  const { is, items, values, objects, fields } = json;
  const inner = (json: unknown) => read(json, depth - 1);
  return {
    scalars: Array.isArray(is) ? SCALARS.filter((type) => is.includes(type)) : [],
    ...(items === undefined ? {} : { items: inner(items) }),
    ...(values === undefined ? {} : { object: { kind: "mapping", values: inner(values) } }),
    ...(isRecord(fields) ? { object: readFields(fields, readCount(objects), inner) } : {}),
  };
}

function readFields(
  json: Record<string, unknown>,
  seen: number,
  inner: (json: unknown) => Shape,
): ObjectShape {
  const names = Object.keys(json);
  if (names.length > MAX_FIELDS || names.some(isData)) return ANY_MAPPING;
  const fields = names.map((name): [string, FieldShape] => {
    const field = json[name];
    const count = isRecord(field) ? readCount(field.seen) : 1;
    return [name, { seen: Math.min(count, seen), shape: inner(field) }];
  });
  return { kind: "record", seen, fields: new Map(fields) };
}

function readCount(json: unknown): number {
  return typeof json === "number" && json >= 1 ? Math.min(Math.floor(json), MAX_COUNT) : 1;
}
