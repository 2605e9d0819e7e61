/**
 * Reads JSON Schemas of drafts 4 to 2020-12 into the form of `schema.ts`. Some servers send malformed
 * keywords; these are dropped, so that the tool stays usable.
 *
 * @module
 */
import { isArray, isObject, type Json, JsonNumber, type JsonObject, keyOf } from "./json.ts";
import { type DraftNumber, References } from "./references.ts";
import type { COUNTS, Draft, JsonType, PART_LISTS, PARTS, Schema, SchemaNode } from "./schema.ts";

const TYPES = new Set<Json>(
  ["null", "boolean", "integer", "number", "string", "array", "object"] satisfies JsonType[],
);

/** Reads the schemas of one document. */
export class SchemaReader {
  readonly #references: References;
  readonly #draft: DraftNumber;
  readonly #known = new Map<JsonObject, SchemaNode>();
  /** Definitions that were dropped or not found. */
  readonly warnings: Set<string> = new Set();

  /** @param root The document. */
  constructor(readonly root: Json) {
    this.#draft = draftOf(root);
    this.#references = new References(root, this.#draft);
  }

  /** Reads a schema of the document. */
  read(raw: Json): Schema {
    if (typeof raw === "boolean") return raw;
    if (!isObject(raw)) return true;
    const known = this.#known.get(raw);
    if (known !== undefined) return known;
    const schema: Draft = {};
    this.#known.set(raw, schema); // before its parts, as the input may contain cycles
    this.#readInto(schema, raw);
    return schema;
  }

  #readInto(schema: Draft, raw: JsonObject): void {
    this.#readAnnotations(schema, raw);
    this.#readReference(schema, raw);
    // Up to draft 7, siblings of $ref are ignored.
    if (schema.ref !== undefined && this.#draft < 8) return;
    this.#readValues(schema, raw);
    this.#readNumbers(schema, raw);
    this.#readStrings(schema, raw);
    this.#readArrays(schema, raw);
    this.#readObjects(schema, raw);
    this.#readCombinations(schema, raw);
  }

  #readAnnotations(schema: Draft, raw: JsonObject): void {
    const title = raw.get("title");
    if (typeof title === "string") schema.title = title;
    const description = raw.get("description");
    if (typeof description === "string") schema.description = description;
    const preset = raw.get("default");
    if (preset !== undefined) schema.default = preset;
  }

  #readReference(schema: Draft, raw: JsonObject): void {
    const dynamic = this.#draft === 8 && (raw.get("$dynamicRef") ?? raw.get("$recursiveRef"));
    const reference = raw.get("$ref") ?? dynamic;
    if (typeof reference !== "string") return;
    if (!raw.has("$ref")) {
      schema.dynamic = true;
      // The target depends on the dynamic scope: leave it open.
      if (this.#references.isAmbiguous(reference)) return;
    }
    const named = /\/(?:\$defs|definitions)\/([^/]+)$/.exec(reference);
    let found: { readonly target: Schema | undefined } | undefined;
    schema.ref = {
      name: named?.[1],
      target: () => {
        found ??= { target: this.#find(reference, raw) };
        return found.target;
      },
    };
  }

  #find(reference: string, from: JsonObject): Schema | undefined {
    const target = this.#references.resolve(reference, from);
    if (target !== undefined) return this.read(target);
    this.warnings.add(`$ref ${JSON.stringify(reference)} is not found in the schema`);
    return undefined;
  }

  #readValues(schema: Draft, raw: JsonObject): void {
    const type = raw.get("type");
    if (type !== undefined) {
      const names = isArray(type) ? type : [type];
      const types = [...new Set(names)].filter(isType);
      if (types.length > 0 && !names.includes("any")) schema.types = types;
      else this.#drop("type");
    }
    const values = this.#values(raw);
    if (values === undefined) return;
    if (values.some(isRounded)) this.#drop(raw.has("const") ? "const" : "enum");
    else schema.values = values;
  }

  #values(raw: JsonObject): readonly Json[] | undefined {
    const listed = raw.get("enum");
    if (listed !== undefined && !isArray(listed)) this.#drop("enum");
    const values = isArray(listed) ? uniqueValues(listed) : undefined;
    const constant = this.#draft > 4 ? raw.get("const") : undefined;
    if (constant === undefined) return values;
    return values === undefined || values.some((value) => keyOf(value) === keyOf(constant))
      ? [constant]
      : [];
  }

  #readNumbers(schema: Draft, raw: JsonObject): void {
    for (const [limit, exclusive] of LIMITS) {
      const value = this.#number(raw, limit);
      const other = raw.get(exclusive);
      if (typeof other === "boolean") { // draft 4: a flag for the limit
        if (value !== undefined) schema[other ? exclusive : limit] = value;
        continue;
      }
      if (value !== undefined) schema[limit] = value;
      const second = this.#number(raw, exclusive);
      if (second !== undefined) schema[exclusive] = second;
    }
    const step = this.#number(raw, "multipleOf");
    if (step !== undefined && step.value > 0) schema.multipleOf = step;
  }

  #number(raw: JsonObject, keyword: string): JsonNumber | undefined {
    const value = raw.get(keyword);
    if (value === undefined) return undefined;
    if (value instanceof JsonNumber) {
      if (value.exact) return value;
      // Widen a rounded limit to include the exact one.
      if (/inimum$/.test(keyword)) return widened(value, -1);
      if (/aximum$/.test(keyword)) return widened(value, 1);
    }
    this.#drop(keyword);
    return undefined;
  }

  #readStrings(schema: Draft, raw: JsonObject): void {
    this.#readCounts(schema, raw, ["minLength", "maxLength"]);
    const pattern = raw.get("pattern");
    if (typeof pattern === "string") schema.pattern = pattern;
    else if (pattern !== undefined) this.#drop("pattern");
  }

  #readCounts(schema: Draft, raw: JsonObject, keywords: readonly CountKeyword[]): void {
    for (const keyword of keywords) {
      const value = raw.get(keyword);
      if (value === undefined) continue;
      const count = value instanceof JsonNumber ? value.integer : undefined;
      if (count === undefined || count < 0n) this.#drop(keyword);
      else if (count <= MAX_COUNT) schema[keyword] = Number(count);
      // Nothing is longer anyway, so a greater maximum is no limit.
      else if (keyword.startsWith("min")) schema[keyword] = Number(MAX_COUNT);
    }
  }

  #readArrays(schema: Draft, raw: JsonObject): void {
    this.#readCounts(schema, raw, ["minItems", "maxItems"]);
    const items = raw.get("items");
    if (isArray(items)) { // up to draft 2019-09
      if (items.length > 0) schema.prefixItems = items.map((item) => this.read(item));
      this.#readPart(schema, "items", raw.get("additionalItems"));
    } else {
      this.#readPart(schema, "items", items);
      if (this.#draft === 8) this.#readParts(schema, "prefixItems", raw.get("prefixItems"));
    }
    if (raw.get("uniqueItems") === true) schema.uniqueItems = true;
    if (this.#draft > 4) this.#readPart(schema, "contains", raw.get("contains"));
    if (this.#draft === 8) {
      this.#readCounts(schema, raw, ["minContains", "maxContains"]);
      this.#readPart(schema, "unevaluatedItems", raw.get("unevaluatedItems"));
    }
  }

  #readObjects(schema: Draft, raw: JsonObject): void {
    this.#readCounts(schema, raw, ["minProperties", "maxProperties"]);
    this.#readPartMap(schema, "properties", raw.get("properties"));
    this.#readPartMap(schema, "patternProperties", raw.get("patternProperties"));
    this.#readPart(schema, "additionalProperties", raw.get("additionalProperties"));
    const required = raw.get("required");
    if (isArray(required)) {
      const names = strings(required);
      if (names.length > 0) schema.required = names;
    } else if (required !== undefined) this.#drop("required");
    if (this.#draft > 4 && !saysStringsOnly(raw.get("propertyNames"))) {
      this.#readPart(schema, "propertyNames", raw.get("propertyNames"));
    }
    this.#readDependencies(schema, raw);
    if (this.#draft === 8) {
      this.#readPart(schema, "unevaluatedProperties", raw.get("unevaluatedProperties"));
    }
  }

  #readDependencies(schema: Draft, raw: JsonObject): void {
    const required = new Map<string, readonly string[]>();
    const schemas = new Map<string, Schema>();
    const keywords = ["dependencies", "dependentRequired", "dependentSchemas"];
    for (const keyword of this.#draft === 8 ? keywords : ["dependencies"]) {
      const map = raw.get(keyword);
      if (!isObject(map)) continue;
      for (const [name, value] of map) {
        if (isArray(value)) required.set(name, strings(value));
        else if (typeof value === "string") required.set(name, [value]); // draft 3
        else schemas.set(name, this.read(value));
      }
    }
    if (required.size > 0) schema.dependentRequired = required;
    if (schemas.size > 0) schema.dependentSchemas = schemas;
  }

  #readCombinations(schema: Draft, raw: JsonObject): void {
    for (const keyword of ["allOf", "anyOf", "oneOf"] as const) {
      this.#readParts(schema, keyword, raw.get(keyword));
    }
    this.#readPart(schema, "not", raw.get("not"));
    if (this.#draft >= 7 && raw.has("if")) {
      for (const keyword of ["if", "then", "else"] as const) {
        this.#readPart(schema, keyword, raw.get(keyword));
      }
    }
  }

  #readPart(schema: Draft, keyword: PartKeyword, value: Json | undefined): void {
    if (value === undefined) return;
    if (isObject(value) || typeof value === "boolean") schema[keyword] = this.read(value);
    else this.#drop(keyword);
  }

  #readParts(schema: Draft, keyword: PartsKeyword, value: Json | undefined): void {
    if (value === undefined) return;
    if (isArray(value) && value.length > 0) schema[keyword] = value.map((part) => this.read(part));
    else this.#drop(keyword);
  }

  #readPartMap(schema: Draft, keyword: PartMapKeyword, value: Json | undefined): void {
    if (value === undefined) return;
    if (!isObject(value)) this.#drop(keyword);
    else if (value.size > 0) {
      schema[keyword] = new Map([...value].map(([name, part]) => [name, this.read(part)]));
    }
  }

  #drop(keyword: string): void {
    this.warnings.add(`Keyword ${keyword} is ignored if its value is malformed or out of range`);
  }
}

type CountKeyword = typeof COUNTS[number];
type PartKeyword = typeof PARTS[number];
type PartsKeyword = typeof PART_LISTS[number];
type PartMapKeyword = "properties" | "patternProperties";

const LIMITS = [["minimum", "exclusiveMinimum"], ["maximum", "exclusiveMaximum"]] as const;

/** The greatest count that Pydantic and doubles can represent. */
const MAX_COUNT = 2n ** 53n - 1n;

function draftOf(root: Json): DraftNumber {
  const dialect = isObject(root) ? root.get("$schema") : undefined;
  const draft = typeof dialect === "string" ? /\/draft-0([3467])\//.exec(dialect)?.[1] : undefined;
  switch (draft) {
    case "3":
    case "4":
      return 4;
    case "6":
      return 6;
    case "7":
      return 7;
    default:
      return 8;
  }
}

function isType(value: Json): value is JsonType {
  return TYPES.has(value);
}

function strings(values: readonly Json[]): string[] {
  return [...new Set(values.filter((value) => typeof value === "string"))];
}

function uniqueValues(values: readonly Json[]): Json[] {
  return [...new Map(values.map((value) => [keyOf(value), value])).values()];
}

/** The next double above or below an integer beyond 2^53. */
function widened(number: JsonNumber, sign: 1 | -1): JsonNumber {
  const step = 2 ** (Math.floor(Math.log2(Math.abs(number.value))) - 52);
  return new JsonNumber(String(BigInt(number.value) + BigInt(sign) * BigInt(step)));
}

function isRounded(value: Json): boolean {
  if (value instanceof JsonNumber) return !value.exact;
  if (isArray(value)) return value.some(isRounded);
  return isObject(value) && [...value.values()].some(isRounded);
}

/** Whether `propertyNames` only requires strings, which is always true; zod writes this. */
function saysStringsOnly(value: Json | undefined): boolean {
  return isObject(value) && value.size === 1 && value.get("type") === "string";
}
