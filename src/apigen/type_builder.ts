/**
 * Builds Python types and classes from schemas.
 *
 * @module
 */
import {
  allowsNull,
  areApart,
  distinctiveNames,
  followReference,
  Merger,
  tagHint,
  tagOf,
} from "./merge.ts";
import { itemHint, notesOf, outputBase, uncheckedPatterns, undeclared } from "./class_parts.ts";
import {
  annotated,
  ANY,
  BOOL,
  type Constraint,
  type Definition,
  type Field,
  membersOf,
  NEVER,
  NONE,
  NULL,
  optional,
  type PyType,
} from "./model.ts";
import { type ClassNames, fieldNames, singular } from "./names.ts";
import { quoted } from "./python.ts";
import {
  ANNOTATIONS,
  ARRAY_KEYWORDS,
  BEYOND_TYPES,
  constraintsOf,
  type JsonType,
  type Keyword,
  omit,
  pick,
  type Schema,
  type SchemaNode,
} from "./schema.ts";
import {
  field,
  fits,
  listedTypes,
  type Mode,
  numberType,
  sizeLimits,
  stringType,
  typeText,
  unionOf,
} from "./value_types.ts";

/** The deepest nesting of types. Python cannot parse deeper brackets. */
const MAX_DEPTH = 50;

/** How many schemas are processed, as references can multiply them endlessly. */
const MAX_SCHEMAS = 100_000;

/** Referenced types longer than this, in characters, get a name. */
const MAX_INLINE = 200;

/** How much text the fields of a document may have, in characters: many may refer to the same words. */
const MAX_TEXT = 2 ** 22;

/** The most members of a union: Python needs a larger stack to parse longer ones. */
const MAX_MEMBERS = 300;

/** The characters of a field besides its own text. */
const FIELD_TEXT = 64;

/** Builds the types of one schema document. */
export class TypeBuilder {
  readonly #merger: Merger = new Merger(() => this.noteInexact());
  readonly #types = new Map<SchemaNode, PyType>();
  readonly #active = new Map<SchemaNode, { alias: string | undefined }>();
  #schemas = 0;
  #text = 0;

  /** The names of the classes whose fields are being built. */
  readonly #openClasses = new Set<string>();
  /** The definitions so far, inner ones first. */
  readonly definitions: Definition[] = [];
  /** Whether the types allow more than the schema does. */
  inexact = false;
  /** Whether a class refers to itself. */
  recursive = false;
  /** Whether a part was too deep or too large for types. */
  cut = false;

  constructor(
    readonly root: Schema,
    readonly className: "Params" | "Result",
    readonly names: ClassNames,
  ) {}

  /** The direction of the values. */
  get mode(): Mode {
    return this.className === "Params" ? "input" : "output";
  }

  /** Records that the types allow more than the schema does. */
  noteInexact(): void {
    this.inexact = true;
  }

  /** Counts the text of a field. */
  #addText(length: number): void {
    this.#text += length;
    if (this.#text > MAX_TEXT) throw new RangeError("its fields have too much text");
  }

  /** Whether the document may compare that much more. */
  affords(size: number): boolean {
    return this.#merger.affords(size);
  }

  /** Merges references and `allOf` into a schema. */
  flatten(schema: Schema): Schema {
    return this.#merger.flatten(schema);
  }

  typeOf(schema: Schema, hint: string): PyType {
    if (typeof schema === "boolean") return schema ? ANY : NEVER;
    const known = this.#types.get(schema);
    if (known !== undefined) {
      if (known.kind === "class" && this.#openClasses.has(known.name)) this.recursive = true;
      return known;
    }
    const active = this.#active.get(schema);
    if (active !== undefined) { // it is recursive, so it needs a name
      this.recursive = true;
      active.alias ??= this.names.next(hint);
      return { kind: "class", name: active.alias };
    }
    if (this.#active.size > MAX_DEPTH || ++this.#schemas > MAX_SCHEMAS) {
      this.cut = true;
      this.noteInexact();
      return ANY;
    }
    const entry: { alias: string | undefined } = { alias: undefined };
    this.#active.set(schema, entry);
    let type = this.#make(schema, hint);
    this.#active.delete(schema);
    type = this.#types.get(schema) ??
      (entry.alias === undefined ? type : this.#alias(entry.alias, type));
    this.#types.set(schema, type);
    return type;
  }

  #alias(name: string, type: PyType): PyType {
    const others = membersOf(type).filter((member) =>
      member.kind !== "class" || member.name !== name
    );
    const rest = unionOf(others);
    this.definitions.push({ kind: "alias", name, type: rest === NEVER ? ANY : rest });
    return { kind: "class", name };
  }

  #make(schema: SchemaNode, hint: string): PyType {
    if (schema.ref !== undefined) return this.#referred(schema, hint);
    if (schema.allOf !== undefined) return this.#merged(schema, hint);
    if (BEYOND_TYPES.some((keyword) => schema[keyword] !== undefined)) this.noteInexact();
    if (schema.values !== undefined) {
      const others = constraintsOf(schema).filter((key) => key !== "values" && key !== "types");
      if (others.length > 0) this.noteInexact();
      return this.#union(listedTypes(schema));
    }
    if (schema.anyOf !== undefined) return this.#branches(schema, "anyOf", schema.anyOf, hint);
    if (schema.oneOf !== undefined) return this.#branches(schema, "oneOf", schema.oneOf, hint);
    if (schema.types === undefined) return this.#untyped(schema, hint);
    const types = schema.types.filter((type) =>
      type !== "integer" || !schema.types?.includes("number")
    );
    const only = types.filter((type) => type !== "null").length === 1;
    const members = types.map((type) => this.#single(schema, type, hint, only));
    return this.#union(members);
  }

  #referred(schema: SchemaNode, hint: string): PyType {
    if (schema.dynamic) this.noteInexact();
    const { target, name } = followReference(schema);
    if (target === undefined) {
      this.noteInexact();
      return ANY;
    }
    if (constraintsOf(schema).some((keyword) => keyword !== "ref" && keyword !== "dynamic")) {
      const flat = this.flatten(schema);
      return flat === schema ? ANY : this.typeOf(flat, name ?? hint);
    }
    if (target === this.root) return this.#rootType();
    const type = this.typeOf(target, name ?? hint);
    if (typeof target === "boolean" || typeText(type).length <= MAX_INLINE) return type;
    const named = this.#alias(this.names.next(name ?? hint), type);
    this.#types.set(target, named);
    return named;
  }

  #rootType(): PyType {
    this.recursive = true;
    const own: PyType = { kind: "class", name: this.className };
    const types = typeof this.root === "object" ? this.root.types : undefined;
    if (this.mode === "output" || (types?.length === 1 && types[0] === "object")) return own;
    this.noteInexact();
    return { kind: "union", members: [own, ANY] };
  }

  #merged(schema: SchemaNode, hint: string): PyType {
    const [only, second] = schema.allOf ?? [];
    if (only !== undefined && second === undefined && constraintsOf(schema).length === 1) {
      return this.typeOf(only, hint);
    }
    const flat = this.flatten(schema);
    if (typeof flat === "object" && this.#isPlainObject(flat)) {
      return this.#class(flat, hint, schema);
    }
    return this.typeOf(flat, hint);
  }

  #branches(
    schema: SchemaNode,
    keyword: "anyOf" | "oneOf",
    branches: readonly Schema[],
    hint: string,
  ): PyType {
    if (keyword === "oneOf" && !areApart(branches, this.#merger)) this.noteInexact();
    const rest = omit(schema, keyword, "title", "description", "default");
    const others = constraintsOf(rest);
    if (others.length > 0 && this.#isPlainObject(rest) && branches.every(onlyDemands)) {
      // The branches only restrict which properties of the one class go together.
      this.noteInexact();
      return this.#class({ ...annotationsOf(schema), ...rest }, hint, schema);
    }
    if (others.some((other) => other !== "types")) this.noteInexact();
    const wholes = branches.map((branch) =>
      others.length > 0 ? this.#merger.intersect(rest, this.flatten(branch)) : branch
    );
    const names = distinctiveNames(wholes, this.#merger);
    const parts = wholes.map((whole, index) => {
      const branch = branches[index] ?? true;
      return this.typeOf(whole, this.#branchHint(branch, whole, hint, names[index] ?? ""));
    });
    const union = this.#union(parts);
    return union === ANY ? ANY : this.#tagged(branches, parts) ?? union;
  }

  #union(types: readonly PyType[]): PyType {
    const union = unionOf(types);
    if (membersOf(union).length <= MAX_MEMBERS) return union;
    this.cut = true;
    this.noteInexact();
    return ANY;
  }

  /** Whether a schema allows only objects, and declares properties. */
  #isPlainObject(schema: SchemaNode): boolean {
    const isObject = schema.types === undefined
      ? this.mode === "output"
      : schema.types.length === 1 && schema.types[0] === "object";
    return isObject && schema.properties !== undefined && schema.values === undefined &&
      schema.anyOf === undefined && schema.oneOf === undefined;
  }

  #branchHint(branch: Schema, whole: Schema, hint: string, distinctive: string): string {
    if (typeof branch === "boolean") return hint;
    if (branch.title !== undefined && /^[A-Za-z][\w ]{0,40}$/.test(branch.title)) {
      return branch.title;
    }
    const tag = tagHint(whole);
    if (tag !== "") return `${hint} ${tag}`;
    return distinctive === "" ? hint : `${hint} with ${distinctive}`;
  }

  /** A union with a discriminator, which is faster and gives better messages; `undefined` without one. */
  #tagged(branches: readonly Schema[], parts: readonly PyType[]): PyType | undefined {
    const classes = parts.filter((part) => part.kind === "class").map((part) => part.name);
    if (classes.length < 2 || new Set(classes).size < parts.length) return undefined;
    const tag = tagOf(branches, this.#merger);
    if (tag === undefined) return undefined;
    const hasTag = (name: string) =>
      this.definitions.some((definition) =>
        definition.kind === "class" && definition.name === name &&
        definition.fields.some((field) =>
          field.name === tag && field.wire === tag && field.type.kind === "literal"
        )
      );
    if (!classes.every(hasTag)) return undefined;
    const union: PyType = { kind: "union", members: parts };
    return annotated(union, field([["discriminator", tag]]));
  }

  #untyped(schema: SchemaNode, hint: string): PyType {
    const keywords = constraintsOf(schema);
    if (keywords.length === 0) return ANY;
    if (schema.properties !== undefined) {
      const own = this.#class(schema, hint, this.mode === "output" ? schema : undefined);
      if (this.mode === "output") return own;
      this.noteInexact(); // other values than objects are allowed, too
      return { kind: "union", members: [own, ANY] };
    }
    if (this.mode === "output" && keywords.every((keyword) => ARRAY_KEYWORDS.has(keyword))) {
      return this.#array(schema, hint);
    }
    this.noteInexact();
    return ANY;
  }

  #single(schema: SchemaNode, type: JsonType, hint: string, isOnly: boolean): PyType {
    switch (type) {
      case "null":
        return NONE;
      case "boolean":
        return BOOL;
      case "string":
        return stringType(schema, this.mode);
      case "integer":
      case "number":
        return numberType(schema, type, this.mode);
      case "array":
        return this.#array(schema, hint);
      case "object":
        return schema.properties === undefined
          ? this.#dict(schema, hint)
          : this.#class(schema, hint, isOnly && schema.types?.length === 1 ? schema : undefined);
    }
  }

  #array(schema: SchemaNode, hint: string): PyType {
    const { prefixItems = [], items } = schema;
    const item = itemHint(hint);
    const parts = prefixItems.map((part, index) => this.typeOf(part, `${item} ${index + 1}`));
    const isTuple = items === false && (schema.minItems ?? 0) >= parts.length;
    if (parts.length > 0 && isTuple && !schema.uniqueItems && schema.contains === undefined) {
      // Counts other than the tuple's length are impossible or redundant.
      if ((schema.minItems ?? 0) > parts.length) return NEVER;
      if ((schema.maxItems ?? parts.length) < parts.length) return NEVER;
      return { kind: "tuple", items: parts };
    }
    if (parts.length > 0) this.noteInexact();
    const rest = items === undefined ? ANY : this.typeOf(items, item);
    const type = parts.length > 0 ? this.#union([...parts, rest]) : rest;
    const list: PyType = { kind: "list", item: type };
    if (this.mode === "output") return list;
    const constraints: Constraint[] = field(sizeLimits(schema.minItems, schema.maxItems));
    if (schema.uniqueItems) constraints.push({ kind: "unique" });
    return annotated(list, constraints);
  }

  #dict(schema: SchemaNode, hint: string): PyType {
    if (schema.required !== undefined) this.noteInexact();
    const rest = undeclared(schema, this.mode);
    const value = rest === undefined ? ANY : this.typeOf(rest, singular(hint) ?? `${hint} Value`);
    const dict: PyType = { kind: "dict", value };
    if (this.mode === "output") return dict;
    return annotated(dict, field(sizeLimits(schema.minProperties, schema.maxProperties)));
  }

  #class(schema: SchemaNode, hint: string, identity: SchemaNode | undefined): PyType {
    const known = identity === undefined ? undefined : this.#types.get(identity);
    if (known !== undefined) return known;
    const type: PyType = { kind: "class", name: this.names.next(hint) };
    // Registered before its fields are built, so that they can refer to it.
    if (identity !== undefined) this.#types.set(identity, type);
    this.defineClass(schema, type.name);
    return type;
  }

  /** Defines the class of an object's schema. */
  defineClass(schema: SchemaNode, name: string): void {
    const { required = [], additionalProperties, patternProperties } = schema;
    const { properties = new Map<string, Schema>() } = schema;
    const unexpressed = [...BEYOND_TYPES, "minProperties", "maxProperties"] as const;
    if (unexpressed.some((keyword) => schema[keyword] !== undefined)) this.noteInexact();
    if (required.some((property) => !properties.has(property))) this.noteInexact();
    this.#addText(schema.description?.length ?? 0);
    this.#openClasses.add(name);
    const fields = this.#fieldsOf(schema);
    const rest = undeclared(schema, this.mode);
    const extra = rest === undefined || rest === false
      ? undefined
      : this.typeOf(rest, `${name === this.className ? "" : name} Extra`);
    this.#openClasses.delete(name);
    if (fields.length < properties.size) this.noteInexact();
    const isInput = this.mode === "input";
    this.definitions.push({
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

  #fieldsOf(schema: SchemaNode): Field[] {
    const isInput = this.mode === "input";
    const { properties = new Map<string, Schema>() } = schema;
    // Pydantic cannot represent lone surrogates; such properties stay undeclared.
    const names = fieldNames([...properties.keys()].filter((name) => name.isWellFormed()));
    const required = new Set(schema.required);
    const fields: Field[] = [];
    for (const [wire, part] of properties) {
      const name = names.get(wire);
      if (name === undefined) continue;
      const type = this.typeOf(part, wire);
      const { description = "", default: preset } = typeof part === "object" ? notesOf(part) : {};
      const shown = preset !== undefined && preset !== null && fits(preset, type);
      const sent = isInput && shown && required.has(wire);
      const isRequired = required.has(wire) && !sent;
      const none = isInput && allowsNull(part) ? NULL : NONE;
      const defaultText = preset === undefined || preset === null ? "" : quoted(preset);
      this.#addText(
        FIELD_TEXT + wire.length + typeText(type).length + description.length + defaultText.length,
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
          ...(isInput && !shown && defaultText !== "" ? [`Default: ${defaultText}`] : []),
          ...(isInput ? uncheckedPatterns(part).map((source) => `Not checked: ${source}`) : []),
        ].filter((line) => line.trim() !== "").join("\n"),
      });
    }
    return fields;
  }
}

/** Whether a branch only restricts which properties are present. */
function onlyDemands(branch: Schema): boolean {
  if (typeof branch === "boolean") return false;
  const demands: readonly Keyword[] = ["required", "not", "properties"];
  return constraintsOf(branch).every((keyword) => demands.includes(keyword));
}

function annotationsOf(schema: SchemaNode): SchemaNode {
  return pick(schema, (keyword) => ANNOTATIONS.has(keyword));
}
