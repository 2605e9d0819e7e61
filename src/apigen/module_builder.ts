/**
 * Builds the model of a module from a tool's definition.
 *
 * @module
 */
import type { ObservedResults } from "../json/shape.ts";
import { checkSchema } from "./check_schema.ts";
import { isTextEnvelope } from "./class_parts.ts";
import { isArray, isObject, type Json, type JsonObject, keyOf, textOf } from "./json.ts";
import { classNamed, type Definition, type ModuleModel, type ModuleOrigin } from "./model.ts";
import { ClassNames, normalized } from "./names.ts";
import { observedResult } from "./observed.ts";
import { declaresResult } from "./package.ts";
import { omit, type Schema, type SchemaNode } from "./schema.ts";
import { SchemaReader } from "./schema_reader.ts";
import { finishClasses } from "./finish_classes.ts";
import { TypeBuilder } from "./type_builder.ts";
import { unionOf } from "./value_types.ts";

/** The model of a module; if its schema is too deep or too large, one that takes any arguments. */
export function modelOf(
  origin: ModuleOrigin,
  definition: JsonObject,
  results?: ObservedResults,
): ModuleModel {
  try {
    return buildModule(origin, definition, results);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    const reason =
      `The schema is too deep or too large: arguments are not checked (${error.message})`;
    const bare = new Map(definition);
    bare.set("inputSchema", new Map());
    bare.delete("outputSchema");
    return { ...buildModule(origin, bare), warnings: [reason] };
  }
}

/** Builds the model. Observed results are used only if the tool declares no schema. */
function buildModule(
  origin: ModuleOrigin,
  definition: JsonObject,
  results?: ObservedResults,
): ModuleModel {
  const warnings = new Set<string>();
  const input = definition.get("inputSchema");
  const output = definition.get("outputSchema") ?? undefined;
  const names = new ClassNames(propertyNames([input, output]));
  const params = buildParams(input, names, warnings);
  const result = buildResult(output, names, warnings);
  const rebuild: ModuleModel["rebuild"] = [
    ...(params.recursive ? ["Params" as const] : []),
    ...(result?.recursive ? ["Result" as const] : []),
  ];
  const definitions = finishClasses([...params.definitions, ...result?.definitions ?? []], names);
  const observed = results === undefined || declaresResult(definition)
    ? undefined
    : observedResult(results, names);
  return {
    ...origin,
    title: textOf(definition.get("title")).trim() || titleIn(definition),
    description: textOf(definition.get("description")).trim(),
    hints: hintsOf(definition),
    definitions,
    observed,
    returns: returnsOf(result),
    rebuild,
    warnings: [...warnings],
  };
}

interface Side {
  readonly definitions: readonly Definition[];
  readonly recursive: boolean;
}

function returnsOf(result: Side | undefined): ModuleModel["returns"] {
  if (result === undefined) return "text";
  const definition = classNamed(result, "Result");
  return definition !== undefined && isTextEnvelope(definition) ? "envelope" : "result";
}

function buildParams(
  raw: Json | undefined,
  names: ClassNames,
  warnings: Set<string>,
): Side {
  if (!isObject(raw)) warnings.add("inputSchema is not an object: arguments are not checked");
  const reader = new SchemaReader(isObject(raw) ? raw : new Map());
  const root = asSchema(reader.read(reader.root));
  const builder = new TypeBuilder(root, "Params", names);
  let object = rootObject(root, builder);
  const isPossible = object.types?.includes("object") ?? true;
  if (!isPossible) {
    warnings.add(
      "inputSchema does not allow an object, but arguments are one: they are not checked",
    );
    object = {};
  }
  builder.defineClass(object, "Params");
  const definitions = [...builder.definitions];
  if (builder.inexact && isPossible) {
    const params = definitions.pop();
    if (params?.kind === "class") {
      definitions.push({ ...params, base: "CheckedModel", schema: checkSchema(root) });
    }
  }
  note(builder, reader, warnings, "inputSchema");
  return { definitions, recursive: builder.recursive };
}

function buildResult(
  raw: Json | undefined,
  names: ClassNames,
  warnings: Set<string>,
): Side | undefined {
  if (raw === undefined) return undefined;
  if (!isObject(raw) && typeof raw !== "boolean") {
    warnings.add("outputSchema is not a schema: the result is text");
    return undefined;
  }
  const reader = new SchemaReader(raw);
  const root = reader.read(raw);
  const builder = new TypeBuilder(root, "Result", names);
  const flat = builder.flatten(root);
  if (typeof flat === "object" && describesObject(flat)) {
    builder.defineClass(rootObject(root, builder), "Result");
  } else {
    defineRoot(builder, root);
  }
  note(builder, reader, warnings, "outputSchema");
  return { definitions: builder.definitions, recursive: builder.recursive };
}

/** Defines a `Result` that is not an object. */
function defineRoot(builder: TypeBuilder, root: Schema): void {
  let type = builder.typeOf(root, "Result Value");
  if (builder.recursive) {
    // A base class is evaluated immediately, so it cannot refer to later classes.
    const name = builder.names.next("Result Value");
    builder.definitions.push({ kind: "alias", name, type });
    type = { kind: "class", name };
  }
  builder.definitions.push({ kind: "root", name: "Result", type: unionOf([type]) });
}

function asSchema(schema: Schema): SchemaNode {
  return typeof schema === "boolean" ? {} : schema;
}

function note(
  builder: TypeBuilder,
  reader: SchemaReader,
  warnings: Set<string>,
  where: string,
): void {
  for (const warning of reader.warnings) warnings.add(`${where}: ${warning}`);
  if (builder.cut) warnings.add(`${where} is too deep or too large to be fully typed`);
}

/** The names of all properties in schemas, which no class may have. */
function propertyNames(schemas: readonly (Json | undefined)[]): Set<string> {
  const names = new Set<string>();
  const waiting: Json[] = schemas.filter((schema) => schema !== undefined);
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    if (isArray(next)) waiting.push(...next);
    if (!isObject(next)) continue;
    const properties = next.get("properties");
    if (isObject(properties)) {
      for (const name of properties.keys()) {
        names.add(normalized(name));
      }
    }
    for (const value of next.values()) if (typeof value === "object") waiting.push(value);
  }
  return names;
}

function titleIn(definition: JsonObject): string {
  const annotations = definition.get("annotations");
  return isObject(annotations) ? textOf(annotations.get("title")).trim() : "";
}

const HINTS = [
  ["readOnlyHint", "read-only"],
  ["destructiveHint", "destructive"],
  ["idempotentHint", "idempotent"],
  ["openWorldHint", "open-world"],
] as const;

function hintsOf(definition: JsonObject): string[] {
  const annotations = definition.get("annotations");
  if (!isObject(annotations)) return [];
  return HINTS.filter(([hint]) => annotations.get(hint) === true).map(([, word]) => word);
}

// Reduces the root of a schema to one object, since `Params` is one class.

/** How many nested unions are unfolded at a root. */
const MAX_UNFOLDED = 8;

/** The object with the properties of all branches. The runtime checks which combinations are valid. */
function rootObject(root: Schema, builder: TypeBuilder): SchemaNode {
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
function describesObject(schema: Schema): boolean {
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
  const names = new Set<string>();
  for (const branch of branches) {
    if (!builder.affords((branch.properties?.size ?? 0) + (branch.required?.length ?? 0))) break;
    for (const name of branch.properties?.keys() ?? []) names.add(name);
  }
  if (!builder.affords(names.size * branches.length)) {
    builder.cut = true;
    return base;
  }
  for (const name of names) {
    const own = properties.get(name);
    const any = anyOfBranches(name, branches, builder);
    properties.set(name, own === undefined || own === true ? any : own);
  }
  const required = branches.map((branch) => new Set(branch.required));
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

/** The schema of a property in any of the branches. Open branches without the property allow anything. */
function anyOfBranches(
  name: string,
  branches: readonly SchemaNode[],
  builder: TypeBuilder,
): Schema {
  const schemas = new Map<string, Schema>();
  let isOpen = false;
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

/** A key that is the same for schemas that are obviously equal. */
function identityOf(schema: Schema): string {
  if (typeof schema === "boolean") return String(schema);
  return identities.getOrInsertComputed(schema, () => {
    if (Object.keys(schema).length === 1 && schema.types !== undefined) return schema.types.join();
    return schema.values?.map(keyOf).join() ?? String(++count);
  });
}

function notesOf(schema: Schema): SchemaNode {
  if (typeof schema === "boolean" || schema.description === undefined) return {};
  return { description: schema.description };
}
