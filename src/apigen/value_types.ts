/**
 * Types for schemas without subschemas, the values that fit them, and types as text.
 *
 * @module
 */
import { compareNumbers, type Json, JsonNumber, keyOf } from "./json.ts";
import { breakable, joined, type Layout, literal } from "./python.ts";
import {
  annotated,
  ANY,
  BOOL,
  type Constraint,
  type FieldArgument,
  INT,
  mapParts,
  membersOf,
  NEVER,
  NONE,
  NUM,
  type PyType,
  STR,
} from "./model.ts";
import { translatePattern } from "./pattern.ts";
import { hasType, type SchemaNode } from "./schema.ts";

/** The direction of values. Parameters are strict; results are lenient, so limits are omitted there. */
export type Mode = "input" | "output";

/** The types of the values that a schema enumerates. */
export function listedTypes(schema: SchemaNode): PyType[] {
  const { types } = schema;
  const values = (schema.values ?? []).filter((value) =>
    types === undefined || hasType(value, types)
  );
  const others = values.filter((value) => value !== null);
  const listed: PyType[] = [];
  if (others.length > 0) {
    // Pydantic does not support lone surrogates in a Literal.
    listed.push(
      others.every((value) => typeof value === "string" && value.isWellFormed())
        ? { kind: "literal", values: others.filter((value) => typeof value === "string") }
        : { kind: "oneOf", values: others },
    );
  }
  if (others.length < values.length) listed.push(NONE);
  return listed.length === 0 ? [NEVER] : listed;
}

/** The type of strings. */
export function stringType(schema: SchemaNode, mode: Mode): PyType {
  if (mode === "output") return STR;
  const limits = sizeLimits(schema.minLength, schema.maxLength);
  const pattern = schema.pattern === undefined ? undefined : translatePattern(schema.pattern);
  if (pattern?.certain) return annotated(STR, field([...limits, ["pattern", pattern.source]]));
  const constraints = field(limits);
  if (pattern !== undefined) constraints.push({ kind: "pattern", source: pattern.source });
  return annotated(STR, constraints);
}

export function numberType(schema: SchemaNode, type: "integer" | "number", mode: Mode): PyType {
  const base = type === "integer" ? INT : NUM;
  if (mode === "output") return base;
  const constraints = field(type === "integer" ? integerLimits(schema) : numberLimits(schema));
  if (schema.multipleOf !== undefined) {
    constraints.push({ kind: "multipleOf", step: schema.multipleOf });
  }
  return annotated(base, constraints);
}

/** The arguments of `Field` for size limits. */
export function sizeLimits(least: number | undefined, most: number | undefined): FieldArgument[] {
  const limits: FieldArgument[] = [];
  if (least !== undefined) limits.push(["min_length", least]);
  if (most !== undefined) limits.push(["max_length", most]);
  return limits;
}

/** A constraint with arguments of `Field`, if there are any. */
export function field(fieldArguments: readonly FieldArgument[]): Constraint[] {
  return fieldArguments.length === 0 ? [] : [{ kind: "field", arguments: fieldArguments }];
}

function numberLimits(schema: SchemaNode): FieldArgument[] {
  const limits: FieldArgument[] = [];
  if (schema.minimum !== undefined) limits.push(["ge", schema.minimum]);
  if (schema.exclusiveMinimum !== undefined) limits.push(["gt", schema.exclusiveMinimum]);
  if (schema.maximum !== undefined) limits.push(["le", schema.maximum]);
  if (schema.exclusiveMaximum !== undefined) limits.push(["lt", schema.exclusiveMaximum]);
  return limits;
}

/** Limits for integers, rounded to integers as Pydantic requires. */
function integerLimits(schema: SchemaNode): FieldArgument[] {
  return numberLimits(schema).map(([keyword, limit]): FieldArgument => {
    if (!(limit instanceof JsonNumber)) return [keyword, limit];
    if (limit.integer !== undefined) return [keyword, new JsonNumber(String(limit.integer))];
    return keyword === "ge" || keyword === "gt"
      ? ["ge", new JsonNumber(String(BigInt(Math.ceil(limit.value))))]
      : ["le", new JsonNumber(String(BigInt(Math.floor(limit.value))))];
  });
}

/** Whether a value can be a field's default: type checkers accept it, and it is within the limits. */
export function fits(value: Json, type: PyType): boolean {
  switch (type.kind) {
    case "name":
      return fitsName(value, type);
    case "literal":
      return type.values.some((allowed) => allowed === value);
    case "oneOf":
      return type.values.some((allowed) => keyOf(allowed) === keyOf(value)) && isScalar(value);
    case "union":
      return type.members.some((member) => fits(value, member));
    case "annotated":
      return fits(value, type.base) && type.constraints.every((limit) => keeps(value, limit));
    case "list":
    case "dict":
    case "tuple":
    case "class":
      return false;
  }
}

function fitsName(value: Json, type: PyType): boolean {
  if (type === STR) return typeof value === "string";
  if (type === BOOL) return typeof value === "boolean";
  if (type === INT) return value instanceof JsonNumber && /^-?\d+$/.test(value.source);
  if (type === NUM) return value instanceof JsonNumber;
  if (type === NONE) return value === null;
  return type !== NEVER && isScalar(value);
}

function isScalar(value: Json): boolean {
  return value === null || typeof value !== "object" || value instanceof JsonNumber;
}

function keeps(value: Json, constraint: Constraint): boolean {
  if (constraint.kind !== "field") return constraint.kind === "pattern";
  return constraint.arguments.every(([keyword, limit]) => {
    if (value instanceof JsonNumber && limit instanceof JsonNumber) {
      const order = compareNumbers(value, limit);
      return { ge: order >= 0, gt: order > 0, le: order <= 0, lt: order < 0 }[keyword as "ge"];
    }
    if (typeof value === "string" && typeof limit === "number") {
      const length = [...value].length;
      return keyword === "min_length" ? length >= limit : length <= limit;
    }
    return keyword === "pattern";
  });
}

/** A flat union without duplicates; `None` comes last. */
export function unionOf(types: readonly PyType[]): PyType {
  const members = new Map<string, PyType>();
  for (const type of types.flatMap(membersOf)) {
    if (type !== NEVER) members.set(typeText(type), type);
  }
  if (members.delete("None")) members.set("None", NONE);
  const all = joinLists([...members.values()]);
  // Any includes everything, but a class beside it stays as a hint.
  if (members.has("Any") && !all.some((type) => type.kind === "class")) return ANY;
  return all.length > 1 ? { kind: "union", members: all } : all[0] ?? NEVER;
}

/** Merges all lists of values into the first one. */
function joinLists(types: readonly PyType[]): PyType[] {
  const listed = types.filter(isListed);
  const [first] = listed;
  if (first === undefined || listed.length === 1) return [...types];
  const byKey = new Map(
    listed.flatMap((type): readonly Json[] => type.values).map((value) => [keyOf(value), value]),
  );
  const values = [...byKey.values()];
  const joined: PyType = listed.every((type) => type.kind === "literal")
    ? { kind: "literal", values: values.filter((value) => typeof value === "string") }
    : { kind: "oneOf", values };
  return types
    .filter((type) => type === first || !isListed(type))
    .map((type) => type === first ? joined : type);
}

function isListed(type: PyType): type is Extract<PyType, { kind: "literal" | "oneOf" }> {
  return type.kind === "literal" || type.kind === "oneOf";
}

// Types as Python annotations.

const texts = new WeakMap<PyType, string>();

/** A type on one line. */
export function typeText(type: PyType): string {
  return texts.getOrInsertComputed(type, () => joined(typeLayout(type)));
}

/** A type that can break into lines. */
export function typeLayout(type: PyType): Layout {
  switch (type.kind) {
    case "name":
    case "class":
      return type.name;
    case "literal":
      return breakable("Literal[", type.values.map(literal), "]");
    case "oneOf": {
      const check = breakable("one_of(", type.values.map(literal), ")");
      return breakable("Annotated[", [oneOfBase(type.values), check], "]");
    }
    case "list":
      return breakable("list[", [typeLayout(type.item)], "]");
    case "dict":
      return breakable("dict[", ["str", typeLayout(type.value)], "]");
    case "tuple":
      return breakable("tuple[", type.items.map(typeLayout), "]");
    case "union":
      return { kind: "union", members: type.members.map(typeLayout) };
    case "annotated": {
      const parts = [typeLayout(type.base), ...type.constraints.map(constraintLayout)];
      return breakable("Annotated[", parts, "]");
    }
  }
}

type Values = Extract<PyType, { kind: "oneOf" }>["values"];

/** Whether values can form a `Literal`: no floats or containers, and True equals 1 in one. */
function hasLiteralBase(values: Values): boolean {
  const isText = (value: Json) => typeof value === "string" && value.isWellFormed();
  const isInteger = (value: Json) =>
    value instanceof JsonNumber && /^(?:0|-?[1-9]\d*)$/.test(value.source);
  return values.every((value) => isText(value) || isInteger(value)) ||
    values.every((value) => isText(value) || typeof value === "boolean");
}

/** The type of enumerated values, without the check of `one_of`. */
export function oneOfBase(values: Values): Layout {
  return hasLiteralBase(values) ? breakable("Literal[", values.map(literal), "]") : "Any";
}

function constraintLayout(constraint: Constraint): Layout {
  switch (constraint.kind) {
    case "field": {
      const parts = constraint.arguments.map(([keyword, value]) =>
        `${keyword}=${literal(typeof value === "number" ? new JsonNumber(String(value)) : value)}`
      );
      return breakable("Field(", parts, ")");
    }
    case "pattern":
      return breakable("pattern(", [literal(constraint.source)], ")");
    case "multipleOf":
      return `multiple_of(${constraint.step.source})`;
    case "unique":
      return "unique";
  }
}

const PLAIN_NAMES = new Map([
  ["Int", "int"],
  ["Num", "float"],
  ["Bool", "bool"],
  ["Null", "None"],
]);

/** A type in plain Python, without constraints. */
export function plain(type: PyType): PyType {
  if (type.kind === "annotated") return plain(type.base);
  const name = type.kind === "name" ? PLAIN_NAMES.get(type.name) : undefined;
  return name === undefined ? mapParts(type, plain) : { kind: "class", name };
}
