/**
 * Merges `allOf` and references into one schema, so that they become one class or type.
 *
 * The result allows everything that the parts allow together. If it allows more, that is recorded, and
 * the runtime checks the whole schema.
 *
 * @module
 */
import { compareNumbers, keyOf } from "./json.ts";
import { MAX_HINT } from "./names.ts";
import {
  ANNOTATIONS,
  constraintsOf,
  type Draft,
  type JsonType,
  type Keyword,
  keywordsOf,
  omit,
  type Schema,
  type SchemaNode,
  typeOfValue,
} from "./schema.ts";

/**
 * How many properties, required names and values one document can merge and compare. References let a
 * small one ask for endless merges of wide objects.
 */
const MAX_MERGED = 500_000;

/** Merges schemas. */
export class Merger {
  readonly #flattened = new Map<SchemaNode, Schema>();
  readonly #open = new Set<SchemaNode>();
  #merged = 0;

  /** @param onInexact Called when a result allows more than its parts do. */
  constructor(readonly onInexact: () => void) {}

  /** Whether the document may merge or compare that much more. */
  affords(size: number): boolean {
    this.#merged += 1 + size;
    return this.#merged <= MAX_MERGED;
  }

  /** Merges references and `allOf` into a schema. */
  flatten(schema: Schema): Schema {
    if (typeof schema === "boolean") return schema;
    if (schema.ref === undefined && schema.allOf === undefined) return schema;
    const known = this.#flattened.get(schema);
    if (known !== undefined) return known;
    // Including itself adds nothing to a schema.
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

  /** Merges halves first, so that results are not copied again for every part. */
  #intersectAll(parts: readonly Schema[]): Schema {
    if (parts.length <= 1) return parts[0] ?? true;
    const middle = parts.length >> 1;
    return this.intersect(
      this.#intersectAll(parts.slice(0, middle)),
      this.#intersectAll(parts.slice(middle)),
    );
  }

  /** The schema of the values that both allow. */
  intersect(left: Schema, right: Schema): Schema {
    if (left === false || right === false) return false;
    if (right === true) return left;
    if (left === true) return right;
    if (!this.affords(widthOf(left) + widthOf(right))) {
      this.onInexact();
      return left;
    }
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
        // Keeping one side allows more than both together.
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

  /** Opens closed objects with different properties, to keep their types; the runtime's check refuses them. */
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

  /** Drops the items of two arrays if one is a tuple: they have no common shape. */
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
function widthOf(schema: Schema | undefined): number {
  if (typeof schema !== "object") return 0;
  const { properties, required = [], values = [] } = schema;
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

// Properties of the branches of a union.

/** Whether no value can match two of the branches, so that `oneOf` means the same as `anyOf`. */
export function areApart(branches: readonly Schema[], merger: Merger): boolean {
  if (branches.length > 200) return false; // comparing all pairs would take too long
  const flat = branches.map((branch) => merger.flatten(branch));
  return flat.every((branch, index) =>
    flat.slice(0, index).every((other) =>
      merger.affords(widthOf(branch) + widthOf(other)) && arePairApart(branch, other, merger)
    )
  );
}

function arePairApart(left: Schema, right: Schema, merger: Merger): boolean {
  if (left === false || right === false) return true;
  if (left === true || right === true) return false;
  if (left.values !== undefined && right.values !== undefined) return !shareValue(left, right);
  const common = kindsOf(left)?.filter((kind) => kindsOf(right)?.includes(kind) ?? true);
  if (common === undefined) return false;
  if (common.length === 0) return true;
  return common.length === 1 && common[0] === "object" && haveOwnTags(left, right, merger);
}

/** The types that a schema allows, with integers counted as numbers. */
function kindsOf(schema: SchemaNode): JsonType[] | undefined {
  const types = schema.values?.map(typeOfValue) ?? schema.types;
  return types?.map((type) => type === "integer" ? "number" : type);
}

function haveOwnTags(left: SchemaNode, right: SchemaNode, merger: Merger): boolean {
  const required = new Set(right.required);
  for (const name of left.required ?? []) {
    if (!required.has(name)) continue;
    const own = merger.flatten(left.properties?.get(name) ?? true);
    const other = merger.flatten(right.properties?.get(name) ?? true);
    if (typeof own === "boolean" || typeof other === "boolean") continue;
    if (!merger.affords(widthOf(own) + widthOf(other))) return false;
    if (own.values !== undefined && other.values !== undefined && !shareValue(own, other)) {
      return true;
    }
  }
  return false;
}

function shareValue(left: SchemaNode, right: SchemaNode): boolean {
  const values = new Set(left.values?.map(keyOf));
  return right.values?.some((value) => values.has(keyOf(value))) ?? false;
}

/** The property that discriminates the branches of a union of objects. */
export function tagOf(branches: readonly Schema[], merger: Merger): string | undefined {
  const [first, ...others] = branches.map((branch) => merger.flatten(branch));
  if (typeof first !== "object" || others.length === 0) return undefined;
  return first.required?.find((name) => {
    const seen = new Set<string>();
    return [first, ...others].every((branch) => {
      const values = typeof branch === "object" && merger.affords(branch.required?.length ?? 0) &&
          branch.required?.includes(name)
        ? tagValues(branch, name, merger)
        : [];
      const isOwn = values.length > 0 && !values.some((value) => seen.has(value));
      for (const value of values) seen.add(value);
      return isOwn;
    });
  });
}

function tagValues(branch: SchemaNode, name: string, merger: Merger): readonly string[] {
  const schema = merger.flatten(branch.properties?.get(name) ?? true);
  const values = typeof schema === "object" ? schema.values ?? [] : [];
  if (!merger.affords(values.length)) return [];
  const texts = values.filter((value) => typeof value === "string");
  return texts.length === values.length ? texts : [];
}

/** The first constant string among an object's properties, for names. */
export function tagHint(branch: Schema): string {
  if (typeof branch === "boolean") return "";
  for (const schema of branch.properties?.values() ?? []) {
    const values = typeof schema === "object" ? schema.values ?? [] : [];
    if (values.length === 1 && typeof values[0] === "string") return values[0].slice(0, MAX_HINT);
  }
  return "";
}

/** For each branch of a union of objects, a property that no other branch has, for names. */
export function distinctiveNames(branches: readonly Schema[], merger: Merger): string[] {
  const objects = branches.map((branch) => {
    const flat = branches.length > 50 ? true : merger.flatten(branch);
    return typeof flat === "object" && flat.properties !== undefined &&
        merger.affords(flat.properties.size)
      ? flat
      : undefined;
  });
  const isUnion = objects.filter((object) => object !== undefined).length > 1;
  const counts = new Map<string, number>();
  for (const object of objects) {
    for (const name of object?.properties?.keys() ?? []) {
      counts.set(name, (counts.get(name) ?? 0) + 1);
    }
  }
  return objects.map((object) => {
    const own = [...object?.properties?.keys() ?? []].filter((name) => counts.get(name) === 1);
    const demanded = new Set(object?.required);
    const required = own.find((name) => demanded.has(name));
    return isUnion ? required ?? own[0] ?? "" : "";
  });
}

/** Whether a schema allows null. */
export function allowsNull(schema: Schema, known: Map<SchemaNode, boolean> = new Map()): boolean {
  if (typeof schema === "boolean") return schema;
  const answer = known.get(schema);
  if (answer !== undefined) return answer;
  known.set(schema, true);
  const allows = (part: Schema) => allowsNull(part, known);
  const condition = schema.if === undefined || allows(schema.if);
  const allowed = (schema.ref === undefined || allows(schema.ref.target() ?? true)) &&
    (schema.types?.includes("null") ?? true) &&
    (schema.values?.includes(null) ?? true) &&
    (schema.allOf?.every(allows) ?? true) &&
    (schema.anyOf?.some(allows) ?? true) &&
    (schema.oneOf?.some(allows) ?? true) &&
    (schema.not === undefined || !allows(schema.not)) &&
    allows((condition ? schema.then : schema.else) ?? true);
  known.set(schema, allowed);
  return allowed;
}

/** The longest chain of references. Many fields may begin with the same one. */
const MAX_CHAIN = 100;

/** Follows references without further constraints; returns the target and its name. */
export function followReference(
  schema: SchemaNode,
): { target: Schema | undefined; name: string | undefined } {
  const seen = new Set<SchemaNode>();
  let name: string | undefined;
  let target: Schema | undefined = schema;
  while (typeof target === "object" && target.ref !== undefined) {
    const isPure = constraintsOf(target).every((key) => key === "ref" || key === "dynamic");
    if (target !== schema && !isPure) break;
    if (seen.has(target) || seen.size === MAX_CHAIN) return { target: undefined, name };
    seen.add(target);
    name = target.ref.name ?? name;
    target = target.ref.target();
  }
  return { target, name };
}
