/**
 * Makes classes of schemas for objects.
 *
 * @module
 */
import { allowsNull, followReference } from "./branches.ts";
import type { Json } from "./json.ts";
import {
  ANY,
  type ClassDefinition,
  type Field,
  isNullable,
  membersOf,
  NONE,
  type PyType,
  unionOf,
} from "./model.ts";
import { fieldNames, memberNames } from "./names.ts";
import { literal } from "./python.ts";
import { BEYOND_TYPES, constraintsOf, type Schema, type SchemaNode } from "./schema.ts";
import type { TypeBuilder } from "./type_builder.ts";
import { typeText } from "./type_text.ts";
import { fits, type Mode } from "./value_types.ts";

/** Makes the classes of one schema document. */
export class ClassBuilder {
  readonly #enums = new Set<string>();

  /** @param types Makes the types of fields, and keeps what is defined. */
  constructor(readonly types: TypeBuilder) {}

  /**
   * Defines a class for an object.
   *
   * @param schema The object's schema, without references.
   * @param name The name of the class.
   * @param description Its docstring.
   */
  define(schema: SchemaNode, name: string, description: string): void {
    const properties = schema.properties ?? new Map<string, Schema>();
    const keywords = constraintsOf(schema);
    if (keywords.includes("minProperties") || keywords.includes("maxProperties")) {
      this.types.noteInexact();
    }
    if (BEYOND_TYPES.some((keyword) => schema[keyword] !== undefined)) this.types.noteInexact();
    if (schema.required?.some((required) => !properties.has(required))) this.types.noteInexact();
    this.types.openClasses.add(name);
    const names = fieldNames(
      // Pydantic cannot hold a lone surrogate; such a name is left to the undeclared ones.
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
    const notNull = fields.filter((field) =>
      !field.required && !allowsNull(properties.get(field.wire) ?? true)
    );
    return {
      kind: "class",
      name,
      base: isInput ? "InputModel" : "OutputModel",
      description,
      fields,
      closed,
      extra: extra === ANY ? undefined : extra,
      omit: isInput ? [...new Set(notNull.flatMap((field) => [field.wire, field.name]))] : [],
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
      const type = this.types.typeOf(part, wire);
      this.#offerEnum(type, wire);
      const isRequired = required.has(wire);
      const { description = "", default: preset } = typeof part === "object"
        ? this.#notes(part)
        : {};
      const shown = !isRequired && preset !== undefined && preset !== null && fits(preset, type);
      fields.push({
        name,
        wire,
        type: isRequired || isNullable(type) ? type : unionOf([type, NONE], typeText),
        required: isRequired,
        default: shown && this.types.mode === "input" ? preset : undefined,
        description:
          shown || preset === undefined || preset === null || this.types.mode === "output"
            ? description
            : withDefault(description, preset),
      });
    }
    return fields;
  }

  /** Description and default of a property, taken from what it refers to where it has none itself. */
  #notes(schema: SchemaNode): { description?: string; default?: Json } {
    if (schema.ref === undefined) return schema;
    const { target } = followReference(schema);
    return typeof target === "object" && target.properties === undefined
      ? { ...target, ...schema }
      : schema;
  }

  /** Defines an enum class for a field with listed strings, where these make clean names. */
  #offerEnum(type: PyType, property: string): void {
    for (const member of membersOf(type)) {
      if (member.kind === "list") this.#offerEnum(member.item, singular(property));
      if (member.kind === "annotated") this.#offerEnum(member.base, property);
      if (member.kind !== "literal" || member.values.length < 2 || member.values.length > 100) {
        continue;
      }
      const names = memberNames(member.values);
      const key = `${property} ${typeText(member)}`;
      if (names === undefined || this.#enums.has(key)) continue;
      const name = this.types.names.next(property);
      this.#enums.add(key);
      const members = names.map((name, index) => [name, member.values[index] ?? ""] as const);
      this.types.definitions.push({ kind: "enum", name, members });
    }
  }
}

/** What undeclared properties must be, if that holds for all of them. */
export function undeclared(schema: SchemaNode, mode: Mode): Schema | undefined {
  if (schema.patternProperties !== undefined) return undefined;
  const { additionalProperties: rest } = schema;
  return rest === true || (rest === false && mode === "output") ? undefined : rest;
}

/** The name for one of several. */
export function singular(hint: string): string {
  return /[^s]s$/.test(hint) && hint.length > 3 ? hint.slice(0, -1) : `${hint} Item`;
}

function withDefault(description: string, preset: Json): string {
  const text = literal(preset);
  return description.trim() === ""
    ? `Default: ${text}`
    : `${description.trimEnd()}\n\nDefault: ${text}`;
}
