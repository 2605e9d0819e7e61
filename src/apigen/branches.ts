/**
 * What can be told of the branches of a union without looking at values.
 *
 * @module
 */
import { keyOf } from "./json.ts";
import type { Merger } from "./merge.ts";
import { MAX_HINT } from "./names.ts";
import {
  constraintsOf,
  type JsonType,
  type Schema,
  type SchemaNode,
  typeOfValue,
} from "./schema.ts";
import { spend } from "./work.ts";

/** Whether no value can fit two of the branches, so that `oneOf` says no more than `anyOf`. */
export function areApart(branches: readonly Schema[], merger: Merger): boolean {
  if (branches.length > 200) return false; // the comparison of all pairs would take too long
  const flat = branches.map((branch) => merger.flatten(branch));
  return flat.every((branch, index) =>
    flat.slice(0, index).every((other) => arePairApart(branch, other, merger))
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
  spend(2 + (schema.values?.length ?? 0));
  const types = schema.values?.map(typeOfValue) ?? schema.types;
  return types?.map((type) => type === "integer" ? "number" : type);
}

function haveOwnTags(left: SchemaNode, right: SchemaNode, merger: Merger): boolean {
  for (const name of left.required ?? []) {
    spend(5 + (right.required?.length ?? 0) / 8);
    if (!right.required?.includes(name)) continue;
    const own = merger.flatten(left.properties?.get(name) ?? true);
    const other = merger.flatten(right.properties?.get(name) ?? true);
    if (typeof own === "boolean" || typeof other === "boolean") continue;
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

/** The property that tells the branches of a union of objects apart. */
export function tagOf(branches: readonly Schema[], merger: Merger): string | undefined {
  const [first, ...others] = branches.map((branch) => merger.flatten(branch));
  if (typeof first !== "object" || others.length === 0) return undefined;
  return first.required?.find((name) => {
    const seen = new Set<string>();
    return [first, ...others].every((branch) => {
      spend(5 + (typeof branch === "object" ? branch.required?.length ?? 0 : 0) / 8);
      const values = typeof branch === "object" && branch.required?.includes(name)
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
  spend(values.length);
  const texts = values.filter((value) => typeof value === "string");
  return texts.length === values.length ? texts : [];
}

/** The first string that a property of an object must be, which is good for a name. */
export function tagHint(branch: Schema): string {
  if (typeof branch === "boolean") return "";
  for (const schema of branch.properties?.values() ?? []) {
    const values = typeof schema === "object" ? schema.values ?? [] : [];
    spend(1);
    if (values.length === 1 && typeof values[0] === "string") return values[0].slice(0, MAX_HINT);
  }
  return "";
}

/**
 * For each branch of a union of objects a property that no other branch has, which is good for a name.
 */
export function distinctiveNames(branches: readonly Schema[], merger: Merger): string[] {
  const objects = branches.map((branch) => {
    const flat = branches.length > 50 ? true : merger.flatten(branch);
    return typeof flat === "object" && flat.properties !== undefined ? flat : undefined;
  });
  const isUnion = objects.filter((object) => object !== undefined).length > 1;
  const counts = new Map<string, number>();
  for (const object of objects) {
    spend(2 * (object?.properties?.size ?? 0));
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
  spend(3);
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

/** Follows references that say nothing else, and names what they lead to. */
export function followReference(
  schema: SchemaNode,
): { target: Schema | undefined; name: string | undefined } {
  const seen = new Set<SchemaNode>();
  let name: string | undefined;
  let target: Schema | undefined = schema;
  while (typeof target === "object" && target.ref !== undefined) {
    spend(5);
    const isPure = constraintsOf(target).every((key) => key === "ref" || key === "dynamic");
    if (target !== schema && !isPure) break;
    if (seen.has(target)) return { target: undefined, name };
    seen.add(target);
    name = target.ref.name ?? name;
    target = target.ref.target();
  }
  return { target, name };
}
