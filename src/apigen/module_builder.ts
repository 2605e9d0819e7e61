/**
 * Makes the model of a module of a tool's definition.
 *
 * @module
 */
import { checkSchema } from "./check_schema.ts";
import { isTextEnvelope } from "./class_builder.ts";
import { isArray, isObject, type Json, type JsonObject } from "./json.ts";
import { type ClassDefinition, type Definition, type ModuleModel, unionOf } from "./model.ts";
import { ClassNames } from "./names.ts";
import { describesObject, rootObject } from "./roots.ts";
import type { Schema, SchemaNode } from "./schema.ts";
import { SchemaReader } from "./schema_reader.ts";
import { settled } from "./settle.ts";
import { TypeBuilder } from "./type_builder.ts";
import { typeText } from "./value_types.ts";
import { spendText } from "./work.ts";

/** Where a module comes from and goes to. */
export interface ModuleOrigin {
  /** The server's name. */
  readonly server: string;
  /** The tool's name on the wire. */
  readonly tool: string;
  /** The module's name. */
  readonly module: string;
}

/** Makes the model of a module. */
export function buildModule(origin: ModuleOrigin, definition: JsonObject): ModuleModel {
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
  return {
    ...origin,
    title: text(definition, "title") || titleIn(definition),
    description: text(definition, "description"),
    hints: hintsOf(definition),
    definitions: settled([...params.definitions, ...result?.definitions ?? []], names),
    returns: returnsOf(result),
    rebuild,
    warnings: [...warnings],
  };
}

/** The model of a module for a tool whose schema defeated the generator: it takes any arguments. */
export function openModule(
  origin: ModuleOrigin,
  definition: JsonObject,
  reason: string,
): ModuleModel {
  const bare = new Map(definition);
  bare.set("inputSchema", new Map());
  bare.delete("outputSchema");
  return { ...buildModule(origin, bare), warnings: [reason] };
}

interface Side {
  readonly definitions: readonly Definition[];
  readonly recursive: boolean;
}

function returnsOf(result: Side | undefined): ModuleModel["returns"] {
  if (result === undefined) return "text";
  const definition = result.definitions.find(({ name }) => name === "Result");
  return definition?.kind === "class" && isTextEnvelope(definition) ? "envelope" : "result";
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
    warnings.add("inputSchema allows no object, but arguments are one: they are not checked");
    object = {};
  }
  builder.classes.define(object, "Params", object.description ?? "");
  const definitions = [...builder.definitions];
  if (builder.inexact && isPossible) {
    const schema = checkSchema(root);
    const params = definitions.pop();
    if (params?.kind === "class") definitions.push(checked(params, schema));
    if (schema === undefined) warnings.add("inputSchema is too large to be checked as a whole");
  }
  note(builder, reader, warnings, "inputSchema");
  return { definitions, recursive: builder.recursive };
}

function checked(params: ClassDefinition, schema: string | undefined): ClassDefinition {
  return schema === undefined ? params : { ...params, base: "CheckedModel", schema };
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
    const object = rootObject(root, builder);
    builder.classes.define(object, "Result", object.description ?? "");
  } else {
    defineRoot(builder, root);
  }
  note(builder, reader, warnings, "outputSchema");
  return { definitions: builder.definitions, recursive: builder.recursive };
}

/** Defines a `Result` that is no object. */
function defineRoot(builder: TypeBuilder, root: Schema): void {
  let type = builder.typeOf(root, "Result Value");
  if (builder.recursive) {
    // A base class is evaluated at once, so it cannot name what is still to come.
    const name = builder.names.next("Result Value");
    builder.definitions.push({ kind: "alias", name, type });
    type = { kind: "class", name };
  }
  builder.definitions.push({ kind: "root", name: "Result", type: unionOf([type], typeText) });
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
  if (builder.cut) warnings.add(`${where} is too deep or too large to be typed throughout`);
}

/** All names of properties in schemas: no class may be called so. */
function propertyNames(schemas: readonly (Json | undefined)[]): Set<string> {
  const names = new Set<string>();
  const waiting: Json[] = schemas.filter((schema) => schema !== undefined);
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    if (isArray(next)) waiting.push(...next);
    if (!isObject(next)) continue;
    const properties = next.get("properties");
    if (isObject(properties)) {
      for (const name of properties.keys()) {
        spendText(name);
        names.add(name.normalize("NFKC"));
      }
    }
    for (const value of next.values()) if (typeof value === "object") waiting.push(value);
  }
  return names;
}

function titleIn(definition: JsonObject): string {
  const annotations = definition.get("annotations");
  return isObject(annotations) ? text(annotations, "title") : "";
}

function text(object: JsonObject, name: string): string {
  const value = object.get(name);
  return typeof value === "string" ? value.trim() : "";
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
