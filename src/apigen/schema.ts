/**
 * JSON Schemas in one form for all dialects: malformed keywords are dropped, old keywords converted to
 * new ones, and references resolved within the document.
 *
 * @module
 */
import type { Json, JsonNumber } from "./json.ts";

/** A type of JSON Schema. */
export type JsonType = "null" | "boolean" | "integer" | "number" | "string" | "array" | "object";

/** A schema: one with keywords, or one that allows everything or nothing. */
export type Schema = boolean | SchemaNode;

/** A `$ref`. */
interface Reference {
  /** The name of the target, if it is a definition. */
  readonly name: string | undefined;
  /** The target; `undefined` if it is not in the document. Nothing is ever fetched. */
  readonly target: () => Schema | undefined;
}

/** A schema with keywords, with the names and semantics of draft 2020-12. */
export interface SchemaNode {
  readonly title?: string;
  readonly description?: string;
  readonly default?: Json;

  readonly ref?: Reference;
  /** The target of the reference depends on the dynamic scope. */
  readonly dynamic?: true;
  readonly types?: readonly JsonType[];
  /** The values of `enum`, `const` or both. */
  readonly values?: readonly Json[];

  readonly minimum?: JsonNumber;
  readonly maximum?: JsonNumber;
  readonly exclusiveMinimum?: JsonNumber;
  readonly exclusiveMaximum?: JsonNumber;
  readonly multipleOf?: JsonNumber;

  readonly minLength?: number;
  readonly maxLength?: number;
  readonly pattern?: string;

  readonly prefixItems?: readonly Schema[];
  readonly items?: Schema;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly uniqueItems?: true;
  readonly contains?: Schema;
  readonly minContains?: number;
  readonly maxContains?: number;
  readonly unevaluatedItems?: Schema;

  readonly properties?: ReadonlyMap<string, Schema>;
  readonly required?: readonly string[];
  readonly additionalProperties?: Schema;
  readonly patternProperties?: ReadonlyMap<string, Schema>;
  readonly propertyNames?: Schema;
  readonly minProperties?: number;
  readonly maxProperties?: number;
  readonly dependentRequired?: ReadonlyMap<string, readonly string[]>;
  readonly dependentSchemas?: ReadonlyMap<string, Schema>;
  readonly unevaluatedProperties?: Schema;

  readonly allOf?: readonly Schema[];
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly not?: Schema;
  readonly if?: Schema;
  readonly then?: Schema;
  readonly else?: Schema;
}

/** A schema while it is built. */
export type Draft = { -readonly [Key in keyof SchemaNode]: SchemaNode[Key] };

/** A keyword of {@linkcode SchemaNode}. */
export type Keyword = keyof SchemaNode;

/** Keywords that do not restrict values. */
export const ANNOTATIONS: ReadonlySet<Keyword> = new Set(["title", "description", "default"]);

/** Keywords that apply only to arrays. */
export const ARRAY_KEYWORDS: ReadonlySet<Keyword> = new Set([
  "prefixItems",
  "items",
  "minItems",
  "maxItems",
  "uniqueItems",
  "contains",
  "minContains",
  "maxContains",
  "unevaluatedItems",
]);

/** Keywords with a count. */
export const COUNTS = [
  "minLength",
  "maxLength",
  "minItems",
  "maxItems",
  "minContains",
  "maxContains",
  "minProperties",
  "maxProperties",
] as const;
/** Keywords with a schema. */
export const PARTS = [
  "items",
  "contains",
  "unevaluatedItems",
  "additionalProperties",
  "propertyNames",
  "unevaluatedProperties",
  "not",
  "if",
  "then",
  "else",
] as const;
/** Keywords with a list of schemas. */
export const PART_LISTS = ["prefixItems", "allOf", "anyOf", "oneOf"] as const;
/** Keywords with a schema for each name. */
export const PART_MAPS = ["properties", "dependentSchemas"] as const;

/** Keywords that Python types cannot express. */
export const BEYOND_TYPES: readonly Keyword[] = [
  "dynamic",
  "not",
  "if",
  "unevaluatedItems",
  "unevaluatedProperties",
  "contains",
  "patternProperties",
  "propertyNames",
  "dependentRequired",
  "dependentSchemas",
];

/** The keywords of a schema that restrict values. */
export function constraintsOf(schema: SchemaNode): Keyword[] {
  return keywordsOf(schema).filter((keyword) => !ANNOTATIONS.has(keyword));
}

/** The names of all keywords that a schema has. */
export function keywordsOf(schema: SchemaNode): Keyword[] {
  // Safe, as the reader creates these objects and gives them no other keys.
  return Object.keys(schema).filter((key): key is Keyword => schema[key as Keyword] !== undefined);
}

/** Copies a schema with some of its keywords. */
export function pick(schema: SchemaNode, keep: (keyword: Keyword) => boolean): SchemaNode {
  return Object.fromEntries(
    Object.entries(schema).filter(([keyword]) => keep(keyword as Keyword)),
  );
}

/** Copies a schema without some of its keywords. */
export function omit(schema: SchemaNode, ...keywords: readonly Keyword[]): SchemaNode {
  return pick(schema, (keyword) => !keywords.includes(keyword));
}

/** The type of a JSON value; whole numbers are of type `integer`. */
export function typeOfValue(value: Json): JsonType {
  if (value === null) return "null";
  if (typeof value === "boolean") return "boolean";
  if (typeof value === "string") return "string";
  if (Array.isArray(value)) return "array";
  if (value instanceof Map) return "object";
  return (value as JsonNumber).integer === undefined ? "number" : "integer";
}

export function hasType(value: Json, types: readonly JsonType[]): boolean {
  const type = typeOfValue(value);
  return types.includes(type) || (type === "integer" && types.includes("number"));
}
