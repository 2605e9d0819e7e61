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
  type PyType,
  STR,
} from "./model.ts";
import { fieldNames, singular } from "./names.ts";
import { translatePattern } from "./pattern.ts";
import { quoted } from "./python.ts";
import { BEYOND_TYPES, constraintsOf, type Schema, type SchemaNode } from "./schema.ts";
import type { TypeBuilder } from "./type_builder.ts";
import { fits, type Mode } from "./value_types.ts";
import { spend, spendText } from "./work.ts";

/** Builds the classes of one schema document. */
export class ClassBuilder {
  /** @param types Builds the types of fields, and collects the definitions. */
  constructor(readonly types: TypeBuilder) {}

  /** Defines a class for an object. */
  define(schema: SchemaNode, name: string, description: string): void {
    const properties = schema.properties ?? new Map<string, Schema>();
    const keywords = constraintsOf(schema);
    if (keywords.includes("minProperties") || keywords.includes("maxProperties")) {
      this.types.noteInexact();
    }
    if (BEYOND_TYPES.some((keyword) => schema[keyword] !== undefined)) this.types.noteInexact();
    if (schema.required?.some((required) => !properties.has(required))) this.types.noteInexact();
    spend(200 + (schema.required?.length ?? 0));
    this.types.openClasses.add(name);
    const names = fieldNames(
      // Pydantic cannot represent lone surrogates; such properties stay undeclared.
      [...properties.keys()].filter((property) => property.isWellFormed()),
    );
    const fields = [...names].length === 0 ? [] : this.#fields(schema, properties, names);
    const rest = undeclared(schema, this.types.mode);
    const extra = rest === undefined || rest === false
      ? undefined
      : this.types.typeOf(rest, `${name === this.types.className ? "" : name} Extra`);
    this.types.openClasses.delete(name);
    this.types.definitions.push(this.#classDefinition(schema, name, description, fields, extra));
  }

  #classDefinition(
    schema: SchemaNode,
    name: string,
    description: string,
    fields: readonly Field[],
    extra: PyType | undefined,
  ): ClassDefinition {
    const properties = schema.properties ?? new Map<string, Schema>();
    const isInput = this.types.mode === "input";
    const closed = isInput && schema.additionalProperties === false &&
      schema.patternProperties === undefined && fields.length === properties.size;
    if (fields.length < properties.size) this.types.noteInexact();
    return {
      kind: "class",
      name,
      base: isInput ? "InputModel" : outputBase(fields, name),
      description,
      fields,
      closed,
      open: schema.patternProperties !== undefined ||
        (schema.additionalProperties ?? false) !== false,
      extra: extra === ANY ? undefined : extra,
      schema: undefined,
    };
  }

  #fields(
    schema: SchemaNode,
    properties: ReadonlyMap<string, Schema>,
    names: ReadonlyMap<string, string>,
  ): Field[] {
    const required = new Set(schema.required);
    const fields: Field[] = [];
    for (const [wire, part] of properties) {
      const name = names.get(wire);
      if (name === undefined) continue;
      spend(100);
      const type = this.types.typeOf(part, wire);
      const isInput = this.types.mode === "input";
      const { description = "", default: preset } = typeof part === "object"
        ? this.#notes(part)
        : {};
      spendText(description);
      const shown = preset !== undefined && preset !== null && fits(preset, type);
      const sent = isInput && shown && required.has(wire);
      const isRequired = required.has(wire) && !sent;
      const none = isInput && allowsNull(part) ? NULL : NONE;
      fields.push({
        name,
        wire,
        type: isRequired || sent ? type : optional(type, none),
        required: isRequired,
        default: shown && isInput && !isRequired ? preset : undefined,
        sent,
        description: [
          description.trimEnd(),
          ...(isInput && !shown && preset !== undefined && preset !== null
            ? [`Default: ${quoted(preset)}`]
            : []),
          ...(isInput ? uncheckedPatterns(part).map((source) => `Not checked: ${source}`) : []),
        ].filter((line) => line.trim() !== "").join("\n"),
      });
    }
    return fields;
  }

  /** Description and default of a property, or those of the schema that it refers to. */
  #notes(schema: SchemaNode): { description?: string; default?: Json } {
    if (schema.ref === undefined) return schema;
    const { target } = followReference(schema);
    return typeof target === "object" && target.properties === undefined
      ? { ...target, ...schema }
      : schema;
  }
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
  spend(3);
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
