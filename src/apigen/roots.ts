/**
 * Makes one object schema of what a tool's schema says at its root, since `Params` is one class.
 *
 * @module
 */
import { keyOf } from "./json.ts";
import { omit, type Schema, type SchemaNode } from "./schema.ts";
import type { TypeBuilder } from "./type_builder.ts";
import { spend } from "./work.ts";

/** Unions inside of unions that are unfolded at a root. */
const MAX_UNFOLDED = 8;

/**
 * The object that a root schema describes. The properties of all branches of its unions come
 * together; which go with which is left to the check of the whole.
 */
export function rootObject(root: Schema, builder: TypeBuilder): SchemaNode {
  let schema = folded(root, builder);
  for (let unfolded = 0; unfolded < MAX_UNFOLDED; unfolded++) {
    const keyword = schema.anyOf !== undefined ? "anyOf" : "oneOf";
    const branches = schema[keyword];
    if (branches === undefined) break;
    builder.noteInexact();
    const parts = branches.map((branch) => folded(branch, builder));
    schema = united(omit(schema, keyword), parts, builder);
  }
  const beyond = ["dynamic", "types", "values"] as const;
  if (beyond.some((keyword) => schema[keyword] !== undefined && !isObjectType(schema))) {
    builder.noteInexact();
  }
  return schema;
}

/** Whether a schema with unions at its root describes objects. */
export function describesObject(schema: Schema): boolean {
  if (typeof schema === "boolean") return false;
  if (schema.types !== undefined) return schema.types.length === 1 && schema.types[0] === "object";
  return schema.properties !== undefined ||
    [...schema.anyOf ?? [], ...schema.oneOf ?? []].some(describesObject);
}

function isObjectType(schema: SchemaNode): boolean {
  return schema.values === undefined && !schema.dynamic &&
    schema.types?.includes("object") === true;
}

function folded(schema: Schema, builder: TypeBuilder): SchemaNode {
  const flat = builder.flatten(schema);
  if (typeof flat === "object") return flat;
  if (flat === false) builder.noteInexact();
  return {};
}

function united(
  base: SchemaNode,
  branches: readonly SchemaNode[],
  builder: TypeBuilder,
): SchemaNode {
  const properties = new Map(base.properties);
  for (const name of new Set(branches.flatMap((branch) => [...branch.properties?.keys() ?? []]))) {
    const own = properties.get(name);
    const any = anyOfBranches(name, branches, builder);
    properties.set(name, own === undefined || own === true ? any : own);
  }
  const required = branches.map((branch) => new Set(branch.required));
  spend((required[0]?.size ?? 0) * branches.length);
  const always = [...required[0] ?? []].filter((name) => required.every((set) => set.has(name)));
  const closed = branches.every((branch) => branch.additionalProperties === false) &&
    branches.every((branch) => branch.patternProperties === undefined);
  const inner = branches.flatMap((branch) => [...branch.anyOf ?? [], ...branch.oneOf ?? []]);
  return {
    ...base,
    ...(properties.size > 0 ? { properties } : {}),
    required: [...new Set([...base.required ?? [], ...always])],
    ...(closed && base.additionalProperties === undefined && inner.length === 0
      ? { additionalProperties: false }
      : {}),
  };
}

/** What a property is in any of the branches. One that does not name it leaves it open. */
function anyOfBranches(
  name: string,
  branches: readonly SchemaNode[],
  builder: TypeBuilder,
): Schema {
  const schemas = new Map<string, Schema>();
  let isOpen = false;
  spend(5 * branches.length);
  for (const branch of branches) {
    const schema = branch.properties?.get(name);
    if (schema !== undefined) schemas.set(identityOf(schema), schema);
    else if (branch.additionalProperties !== false) isOpen = true;
  }
  const [first = true, ...others] = schemas.values();
  if (isOpen && builder.mode === "input") {
    return { ...notesOf(first), anyOf: [...schemas.values(), true] };
  }
  return others.length === 0 ? first : { ...notesOf(first), anyOf: [...schemas.values()] };
}

const identities = new WeakMap<SchemaNode, string>();
let count = 0;

/** Tells schemas apart; listed values are compared, so that equal ones are not repeated. */
function identityOf(schema: Schema): string {
  if (typeof schema === "boolean") return String(schema);
  if (Object.keys(schema).length === 1 && schema.types !== undefined) return schema.types.join();
  if (schema.values !== undefined) return schema.values.map(keyOf).join();
  const known = identities.get(schema) ?? String(++count);
  identities.set(schema, known);
  return known;
}

function notesOf(schema: Schema): SchemaNode {
  if (typeof schema === "boolean" || schema.description === undefined) return {};
  return { description: schema.description };
}
