/**
 * Parts of classes that follow from schemas of objects.
 *
 * @module
 */
import type { Json } from "./json.ts";
import { followReference } from "./merge.ts";
import { type ClassBase, type ClassDefinition, type Field, STR } from "./model.ts";
import { singular } from "./names.ts";
import { translatePattern } from "./pattern.ts";
import type { Schema, SchemaNode } from "./schema.ts";
import type { Mode } from "./value_types.ts";

/** Description and default of a property, or those of the schema that it refers to. */
export function notesOf(schema: SchemaNode): { description?: string; default?: Json } {
  if (schema.ref === undefined) return schema;
  const { target } = followReference(schema);
  return typeof target === "object" && target.properties === undefined
    ? { ...target, ...schema }
    : schema;
}

/** The base of a class in a result. */
export function outputBase(fields: readonly Field[], name: string): ClassBase {
  if (name !== "Result") return "OutputModel";
  const [only, second] = fields;
  if (only === undefined) return "ResultMapping";
  const isEnvelope = second === undefined && only.name === "result" && only.required;
  return isEnvelope ? "ResultValue" : "ResultModel";
}

/** Whether a class is an envelope around text. */
export function isTextEnvelope(definition: ClassDefinition): boolean {
  return definition.base === "ResultValue" && definition.fields[0]?.type === STR;
}

/** The patterns of a property that cannot be checked in Python. */
export function uncheckedPatterns(schema: Schema, depth = 0): string[] {
  if (typeof schema === "boolean" || depth > 5) return [];
  const { pattern, items, additionalProperties, anyOf = [], oneOf = [], allOf = [] } = schema;
  const own = pattern !== undefined && translatePattern(pattern) === undefined ? [pattern] : [];
  const parts = [...anyOf, ...oneOf, ...allOf, items ?? true, additionalProperties ?? true];
  return [...new Set([...own, ...parts.flatMap((part) => uncheckedPatterns(part, depth + 1))])];
}

/** The schema of undeclared properties, if it is the same for all of them. */
export function undeclared(schema: SchemaNode, mode: Mode): Schema | undefined {
  if (schema.patternProperties !== undefined) return undefined;
  const { additionalProperties: rest } = schema;
  return rest === true || (rest === false && mode === "output") ? undefined : rest;
}

/** The name for an item of a list. */
export function itemHint(hint: string): string {
  return singular(hint) ?? `${hint} Item`;
}
