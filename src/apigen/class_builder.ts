/**
 * Builds classes from schemas of objects.
 *
 * @module
 */
import { allowsNull, followReference } from "./merge.ts";
import type { Json } from "./json.ts";
import {
  ANY,
  type ClassBase,
  type ClassDefinition,
  type Field,
  NONE,
  NULL,
  optional,
  STR,
} from "./model.ts";
import { fieldNames, singular } from "./names.ts";
import { translatePattern } from "./pattern.ts";
import { quoted } from "./python.ts";
import { BEYOND_TYPES, type Schema, type SchemaNode } from "./schema.ts";
import type { TypeBuilder } from "./type_builder.ts";
import { fits, type Mode, typeText } from "./value_types.ts";

/** What a field takes besides its own words. */
const FIELD_TEXT = 64;

export function defineClass(types: TypeBuilder, schema: SchemaNode, name: string): void {
  const { required = [], additionalProperties, patternProperties } = schema;
  const properties = propertiesOf(schema);
  const unexpressed = [...BEYOND_TYPES, "minProperties", "maxProperties"] as const;
  if (unexpressed.some((keyword) => schema[keyword] !== undefined)) types.noteInexact();
  if (required.some((property) => !properties.has(property))) types.noteInexact();
  types.addText(schema.description?.length ?? 0);
  types.openClasses.add(name);
  const fields = fieldsOf(schema, types);
  const rest = undeclared(schema, types.mode);
  const extra = rest === undefined || rest === false
    ? undefined
    : types.typeOf(rest, `${name === types.className ? "" : name} Extra`);
  types.openClasses.delete(name);
  if (fields.length < properties.size) types.noteInexact();
  const isInput = types.mode === "input";
  types.definitions.push({
    kind: "class",
    name,
    base: isInput ? "InputModel" : outputBase(fields, name),
    description: schema.description ?? "",
    fields,
    closed: isInput && additionalProperties === false && patternProperties === undefined &&
      fields.length === properties.size,
    open: patternProperties !== undefined || (additionalProperties ?? false) !== false,
    extra: extra === ANY ? undefined : extra,
    schema: undefined,
  });
}

function propertiesOf(schema: SchemaNode): ReadonlyMap<string, Schema> {
  return schema.properties ?? new Map();
}

function fieldsOf(schema: SchemaNode, types: TypeBuilder): Field[] {
  const isInput = types.mode === "input";
  const properties = propertiesOf(schema);
  // Pydantic cannot represent lone surrogates; such properties stay undeclared.
  const names = fieldNames([...properties.keys()].filter((name) => name.isWellFormed()));
  const required = new Set(schema.required);
  const fields: Field[] = [];
  for (const [wire, part] of properties) {
    const name = names.get(wire);
    if (name === undefined) continue;
    const type = types.typeOf(part, wire);
    const { description = "", default: preset } = typeof part === "object" ? notesOf(part) : {};
    const shown = preset !== undefined && preset !== null && fits(preset, type);
    const sent = isInput && shown && required.has(wire);
    const isRequired = required.has(wire) && !sent;
    const none = isInput && allowsNull(part) ? NULL : NONE;
    const told = preset === undefined || preset === null ? "" : quoted(preset);
    types.addText(
      FIELD_TEXT + wire.length + typeText(type).length + description.length + told.length,
    );
    fields.push({
      name,
      wire,
      type: isRequired || sent ? type : optional(type, none),
      required: isRequired,
      default: shown && isInput && !isRequired ? preset : undefined,
      sent,
      description: [
        description.trimEnd(),
        ...(isInput && !shown && told !== "" ? [`Default: ${told}`] : []),
        ...(isInput ? uncheckedPatterns(part).map((source) => `Not checked: ${source}`) : []),
      ].filter((line) => line.trim() !== "").join("\n"),
    });
  }
  return fields;
}

/** Description and default of a property, or those of the schema that it refers to. */
function notesOf(schema: SchemaNode): { description?: string; default?: Json } {
  if (schema.ref === undefined) return schema;
  const { target } = followReference(schema);
  return typeof target === "object" && target.properties === undefined
    ? { ...target, ...schema }
    : schema;
}

/** The base of a class in a result. */
function outputBase(fields: readonly Field[], name: string): ClassBase {
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
function uncheckedPatterns(schema: Schema, depth = 0): string[] {
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
