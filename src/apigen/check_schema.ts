/**
 * Writes the schema that the runtime checks arguments against, if types cannot express all of it.
 *
 * It has one form for all dialects: references are `#` or `#/$defs/NAME`, patterns are translated,
 * `patternProperties` is a list of pairs, and annotations are dropped.
 *
 * @module
 */
import { type Json, JsonNumber, writeJson } from "./json.ts";
import { NamePool } from "./names.ts";
import { translatePattern } from "./pattern.ts";
import { COUNTS, PART_LISTS, PART_MAPS, PARTS, type Schema, type SchemaNode } from "./schema.ts";

/** Writes a schema. */
export function checkSchema(root: Schema): string {
  if (typeof root === "boolean") return String(root);
  return new CheckWriter(root).write();
}

class CheckWriter {
  readonly #names = new Map<SchemaNode, string>();
  readonly #waiting: SchemaNode[] = [];
  readonly #pool = new NamePool(() => false, "");

  constructor(readonly root: SchemaNode) {}

  write(): string {
    const object = this.#object(this.root);
    const definitions = new Map<string, Json>();
    for (const next of this.#waiting) { // it grows
      definitions.set(this.#names.get(next) ?? "", this.#object(next));
    }
    if (definitions.size > 0) object.set("$defs", definitions);
    return writeJson(object);
  }

  #schema(schema: Schema): Json {
    if (typeof schema === "boolean") return schema;
    if (schema !== this.root && !this.#names.has(schema)) return this.#object(schema);
    return new Map([["$ref", this.#refer(schema, undefined)]]);
  }

  /** Returns a reference to a schema, which becomes a definition. */
  #refer(schema: SchemaNode, wanted: string | undefined): string {
    if (schema === this.root) return "#";
    let name = this.#names.get(schema);
    if (name === undefined) {
      name = this.#pool.take((wanted ?? "part").slice(0, 60));
      this.#names.set(schema, name);
      this.#waiting.push(schema);
    }
    return `#/$defs/${name}`;
  }

  #object(schema: SchemaNode): Map<string, Json> {
    const object = new Map<string, Json>();
    this.#writeReference(object, schema);
    for (const keyword of NUMBERS) set(object, keyword, schema[keyword]);
    for (const keyword of COUNTS) set(object, keyword, numeral(schema[keyword]));
    for (const keyword of PARTS) {
      const part = schema[keyword];
      if (part !== undefined) object.set(keyword, this.#schema(part));
    }
    for (const keyword of PART_LISTS) {
      set(object, keyword, schema[keyword]?.map((part) => this.#schema(part)));
    }
    for (const keyword of PART_MAPS) {
      const map = schema[keyword];
      if (map !== undefined) object.set(keyword, this.#map(map));
    }
    set(object, "type", schema.types?.length === 1 ? schema.types[0] : schema.types);
    set(object, "enum", schema.values);
    set(object, "required", schema.required);
    set(object, "dependentRequired", schema.dependentRequired);
    set(object, "uniqueItems", schema.uniqueItems);
    this.#writePatterns(object, schema);
    return object;
  }

  #writeReference(object: Map<string, Json>, schema: SchemaNode): void {
    if (schema.ref === undefined) {
      // The target of a dynamic reference is unknown: the check treats "?" as undecidable.
      if (schema.dynamic) object.set("$ref", "?");
      return;
    }
    const target = schema.ref.target();
    if (typeof target === "object") object.set("$ref", this.#refer(target, schema.ref.name));
    else if (target === undefined) object.set("$ref", "?");
    else if (target === false) object.set("$ref", this.#refer({ not: true }, "never"));
  }

  #writePatterns(object: Map<string, Json>, schema: SchemaNode): void {
    if (schema.pattern !== undefined) {
      object.set("pattern", translatePattern(schema.pattern)?.source ?? null);
    }
    if (schema.patternProperties === undefined) return;
    const pairs = [...schema.patternProperties].map(([source, part]): Json => {
      const pattern = translatePattern(source);
      return pattern === undefined ? [null, true] : [pattern.source, this.#schema(part)];
    });
    object.set("patternProperties", pairs);
  }

  #map(map: ReadonlyMap<string, Schema>): Json {
    return new Map([...map].map(([name, part]) => [name, this.#schema(part)]));
  }
}

const NUMBERS = [
  "minimum",
  "maximum",
  "exclusiveMinimum",
  "exclusiveMaximum",
  "multipleOf",
] as const;

function set(object: Map<string, Json>, keyword: string, value: Json | undefined): void {
  if (value !== undefined) object.set(keyword, value);
}

function numeral(value: number | undefined): Json | undefined {
  return value === undefined ? undefined : new JsonNumber(String(value));
}
