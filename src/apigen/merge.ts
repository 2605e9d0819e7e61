/**
 * Folds `allOf` and references into one schema, so that they become one class or type.
 *
 * The outcome allows at least what the parts allow together. Where it allows more, that is noted, and
 * a check of the whole schema makes up for it.
 *
 * @module
 */
import { compareNumbers, keyOf } from "./json.ts";
import {
  ANNOTATIONS,
  constraintsOf,
  type JsonType,
  type Keyword,
  keywordsOf,
  omit,
  type Schema,
  type SchemaNode,
} from "./schema.ts";
import { spend } from "./work.ts";

/** Merges for one document. After these, hostile ones cannot make it grow any more. */
const MAX_MERGES = 20_000;

type Draft = { -readonly [Key in keyof SchemaNode]: SchemaNode[Key] };

/** Merges schemas. */
export class Merger {
  readonly #flattened = new Map<SchemaNode, Schema>();
  readonly #open = new Set<SchemaNode>();
  #merges = 0;

  /** @param onInexact Called when an outcome allows more than the parts do. */
  constructor(readonly onInexact: () => void) {}

  /** A schema with its references and its `allOf` folded in. */
  flatten(schema: Schema): Schema {
    if (typeof schema === "boolean") return schema;
    if (schema.ref === undefined && schema.allOf === undefined) return schema;
    const known = this.#flattened.get(schema);
    if (known !== undefined) return known;
    // A schema that holds itself in place says nothing by that.
    if (this.#open.has(schema) || this.#open.size > 100) {
      this.onInexact();
      return omit(schema, "ref", "allOf");
    }
    this.#open.add(schema);
    const flat = this.#fold(schema);
    this.#open.delete(schema);
    this.#flattened.set(schema, flat);
    return flat;
  }

  #fold(schema: SchemaNode): Schema {
    let flat: Schema = omit(schema, "ref", "allOf");
    if (schema.ref !== undefined) {
      const target = schema.ref.target();
      if (target === undefined) this.onInexact();
      else flat = this.intersect(flat, this.flatten(target));
    }
    const parts = (schema.allOf ?? []).map((part) => this.flatten(part));
    return this.intersect(flat, this.#intersectAll(parts));
  }

  /** Halves first, so that what has been merged is not copied again for each part. */
  #intersectAll(parts: readonly Schema[]): Schema {
    if (parts.length <= 1) return parts[0] ?? true;
    const middle = parts.length >> 1;
    return this.intersect(
      this.#intersectAll(parts.slice(0, middle)),
      this.#intersectAll(parts.slice(middle)),
    );
  }

  /** One schema for what two allow together. */
  intersect(left: Schema, right: Schema): Schema {
    if (left === false || right === false) return false;
    if (right === true) return left;
    if (left === true) return right;
    if (++this.#merges > MAX_MERGES) {
      this.onInexact();
      return left;
    }
    spend(20 + 2 * (widthOf(left) + widthOf(right)));
    if (constraintsOf(left).length === 0) return { ...right, ...left };
    if (constraintsOf(right).length === 0) return { ...right, ...left };
    return this.#combine(left, right);
  }

  #combine(left: SchemaNode, right: SchemaNode): Schema {
    [left, right] = this.#openObjects(left, right);
    [left, right] = this.#openArrays(left, right);
    const types = commonTypes(left.types, right.types);
    if (types?.length === 0) return false;
    const both: Draft = { ...right, ...left };
    if (types !== undefined) both.types = types;
    for (const keyword of keywordsOf(right)) {
      if (left[keyword] !== undefined && !ANNOTATIONS.has(keyword)) {
        this.#combineKeyword(both, keyword, left, right);
      }
    }
    return both;
  }

  #combineKeyword(both: Draft, keyword: Keyword, left: SchemaNode, right: SchemaNode): void {
    switch (keyword) {
      case "types":
        return;
      case "values": {
        const allowed = new Set(right.values?.map(keyOf));
        both.values = (left.values ?? []).filter((value) => allowed.has(keyOf(value)));
        return;
      }
      case "required":
        both.required = [...new Set([...left.required ?? [], ...right.required ?? []])];
        return;
      case "properties":
        both.properties = this.#combineProperties(left, right);
        return;
      case "items":
        both.items = this.intersect(
          this.flatten(left.items ?? true),
          this.flatten(right.items ?? true),
        );
        return;
      case "minimum":
      case "exclusiveMinimum":
      case "maximum":
      case "exclusiveMaximum": {
        const [own, other] = [left[keyword], right[keyword]];
        if (own === undefined || other === undefined) return;
        const isTighter = compareNumbers(own, other) * (keyword.endsWith("inimum") ? 1 : -1) >= 0;
        both[keyword] = isTighter ? own : other;
        return;
      }
      case "minLength":
      case "minItems":
      case "minProperties":
        both[keyword] = Math.max(left[keyword] ?? 0, right[keyword] ?? 0);
        return;
      case "maxLength":
      case "maxItems":
      case "maxProperties":
        both[keyword] = Math.min(left[keyword] ?? Infinity, right[keyword] ?? Infinity);
        return;
      default:
        // One side is kept, which allows more than both together.
        if (left[keyword] !== right[keyword]) this.onInexact();
    }
  }

  #combineProperties(left: SchemaNode, right: SchemaNode): ReadonlyMap<string, Schema> {
    const properties = new Map(left.properties);
    for (const [name, schema] of right.properties ?? []) {
      const own = properties.get(name);
      const both = own === undefined
        ? schema
        : own === schema
        ? own
        : this.intersect(this.flatten(own), this.flatten(schema));
      properties.set(name, both);
    }
    return properties;
  }

  /**
   * A closed object beside other properties forbids those, but they stay so that each has its type;
   * the check says no.
   */
  #openObjects(left: SchemaNode, right: SchemaNode): [SchemaNode, SchemaNode] {
    const restricts = (schema: SchemaNode) =>
      (schema.additionalProperties ?? true) !== true || schema.patternProperties !== undefined;
    if (!restricts(left) && !restricts(right)) return [left, right];
    const haveSameNames = left.properties?.size === right.properties?.size &&
      [...left.properties?.keys() ?? []].every((name) => right.properties?.has(name));
    if (
      haveSameNames && left.additionalProperties === right.additionalProperties &&
      left.patternProperties === right.patternProperties
    ) return [left, right];
    this.onInexact();
    return [omit(left, "additionalProperties"), omit(right, "additionalProperties")];
  }

  /** Tuples of different lengths, or a tuple and a list, have no common shape. */
  #openArrays(left: SchemaNode, right: SchemaNode): [SchemaNode, SchemaNode] {
    const tuples = left.prefixItems !== undefined || right.prefixItems !== undefined;
    const others = (schema: SchemaNode) =>
      schema.prefixItems !== undefined || schema.items !== undefined;
    if (!tuples || !others(left) || !others(right)) return [left, right];
    this.onInexact();
    return [omit(left, "prefixItems", "items"), omit(right, "prefixItems", "items")];
  }
}

/** How much of a schema a merge copies or compares. */
function widthOf({ properties, required = [], values = [] }: SchemaNode): number {
  return (properties?.size ?? 0) + required.length + values.length;
}

function commonTypes(
  left: readonly JsonType[] | undefined,
  right: readonly JsonType[] | undefined,
): readonly JsonType[] | undefined {
  if (left === undefined || right === undefined) return left ?? right;
  const covers = (types: readonly JsonType[], type: JsonType) =>
    types.includes(type) || (type === "integer" && types.includes("number"));
  const common = [
    ...left.filter((type) => covers(right, type)),
    ...right.filter((type) => covers(left, type)),
  ];
  return [...new Set(common)];
}
