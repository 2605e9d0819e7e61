/**
 * A generated module as plain data: `module_builder.ts` builds it from schemas, `render.ts` renders it as
 * Python.
 *
 * @module
 */
import type { Json, JsonNumber } from "./json.ts";

/** A type in a generated module. */
export type PyType =
  | { readonly kind: "name"; readonly name: SimpleType }
  | { readonly kind: "class"; readonly name: string }
  /** Strings only: other values need a check, since Python considers True equal to 1. */
  | { readonly kind: "literal"; readonly values: readonly string[] }
  | { readonly kind: "oneOf"; readonly values: readonly Json[] }
  | { readonly kind: "list"; readonly item: PyType }
  | { readonly kind: "dict"; readonly value: PyType }
  | { readonly kind: "tuple"; readonly items: readonly PyType[] }
  | { readonly kind: "union"; readonly members: readonly PyType[] }
  | {
    readonly kind: "annotated";
    readonly base: PyType;
    readonly constraints: readonly Constraint[];
  };

/** A type that Python, `typing` or the runtime names. */
type SimpleType = "str" | "Int" | "Num" | "Bool" | "None" | "Null" | "Any" | "Never";

/** A restriction of a type. */
export type Constraint =
  | { readonly kind: "field"; readonly arguments: readonly FieldArgument[] }
  | { readonly kind: "pattern"; readonly source: string }
  | { readonly kind: "multipleOf"; readonly step: JsonNumber }
  | { readonly kind: "unique" };

/** A keyword argument of Pydantic's `Field`. */
export type FieldArgument = readonly [
  "alias" | "discriminator" | "pattern" | "ge" | "gt" | "le" | "lt" | "min_length" | "max_length",
  string | number | JsonNumber,
];

/** A field of a class. */
export interface Field {
  /** Its name in Python. */
  readonly name: string;
  /** Its name in JSON. */
  readonly wire: string;
  readonly type: PyType;
  readonly required: boolean;
  /** The schema's default, if Python can show it as the field's default. */
  readonly default: Json | undefined;
  /** Whether the default is sent if no value is given, as the schema requires the field. */
  readonly sent: boolean;
  readonly description: string;
}

/** A base of generated classes, from the runtime. */
export type ClassBase =
  | "InputModel"
  | "CheckedModel"
  | "OutputModel"
  | "ResultModel"
  /** For results without declared fields: behaves like a dictionary. */
  | "ResultMapping"
  /** For results with the one field `result`: behaves like its value. */
  | "ResultValue";

/** A class for a JSON object. */
export interface ClassDefinition {
  readonly kind: "class";
  readonly name: string;
  readonly base: ClassBase;
  readonly description: string;
  readonly fields: readonly Field[];
  /** Whether undeclared fields are forbidden. */
  readonly closed: boolean;
  /** Whether the schema explicitly allows undeclared fields. */
  readonly open: boolean;
  /** The type of undeclared fields, if they have one. */
  readonly extra: PyType | undefined;
  /** The schema to check arguments against, as JSON; only with the base `CheckedModel`. */
  readonly schema: string | undefined;
}

/** The `root` class of a result, an `alias` of a recursive or long type, or `values` that fields share. */
interface NamedType {
  readonly kind: "root" | "alias" | "values";
  readonly name: string;
  readonly type: PyType;
}

/** Something that a module defines. */
export type Definition = ClassDefinition | NamedType;

/** The observed results of a tool that declares none. */
export interface ObservedResult {
  /** The number of calls that it is based on. */
  readonly calls: number;
  readonly type: PyType;
  /** The classes of the objects in it, inner ones first. */
  readonly classes: readonly ObservedClass[];
}

/** A `TypedDict`. */
export interface ObservedClass {
  readonly name: string;
  readonly fields: readonly ObservedField[];
}

export interface ObservedField {
  /** Its name in JSON. */
  readonly wire: string;
  readonly type: PyType;
  /** Whether every object had it. */
  readonly always: boolean;
}

/** Where a module comes from and goes to. */
export interface ModuleOrigin {
  /** The server's name. */
  readonly server: string;
  /** The tool's name, as the server knows it. */
  readonly tool: string;
  /** The module's name. */
  readonly module: string;
}

export interface ModuleModel extends ModuleOrigin {
  readonly title: string;
  readonly description: string;
  /** The server's hints about the tool's effects, such as `"read-only"`. */
  readonly hints: readonly string[];
  /** In the order of the module. Includes `Params`, and `Result` if there is an output schema. */
  readonly definitions: readonly Definition[];
  /** The value that a call returns: the tool's text, the text in its envelope, or a `Result`. */
  readonly returns: "text" | "envelope" | "result";
  /** The type that `run_json` returns, if results of a tool without `Result` were observed. */
  readonly observed?: ObservedResult;
  /** Recursive classes, which need Pydantic's `model_rebuild()`. */
  readonly rebuild: readonly ("Params" | "Result")[];
  readonly warnings: readonly string[];
}

/** The simple types. */
export const STR: PyType = { kind: "name", name: "str" };
export const INT: PyType = { kind: "name", name: "Int" };
export const NUM: PyType = { kind: "name", name: "Num" };
export const BOOL: PyType = { kind: "name", name: "Bool" };
export const NONE: PyType = { kind: "name", name: "None" };
export const ANY: PyType = { kind: "name", name: "Any" };
export const NEVER: PyType = { kind: "name", name: "Never" };
/** A null that is sent. The default None of such a field means "not given". */
export const NULL: PyType = { kind: "name", name: "Null" };

/** The members of a union, or the type itself. */
export function membersOf(type: PyType): readonly PyType[] {
  return type.kind === "union" ? type.members : [type];
}

/** The class with a name, if a module defines one. */
export function classNamed(
  { definitions }: Pick<ModuleModel, "definitions">,
  name: string,
): ClassDefinition | undefined {
  const found = definitions.find((definition) => definition.name === name);
  return found?.kind === "class" ? found : undefined;
}

/** A type or None. */
export function optional(type: PyType, none: PyType): PyType {
  if (type === ANY && none === NULL) return ANY;
  const members = membersOf(type).filter((member) => member !== NONE && member !== NEVER);
  return members.length === 0 ? none : { kind: "union", members: [...members, none] };
}

export function partsOf(type: PyType): readonly PyType[] {
  switch (type.kind) {
    case "list":
      return [type.item];
    case "dict":
      return [type.value];
    case "tuple":
      return type.items;
    case "union":
      return type.members;
    case "annotated":
      return [type.base];
    default:
      return [];
  }
}

/** A type with other parts. Returns the same type if nothing changes. */
export function mapParts(type: PyType, map: (part: PyType) => PyType): PyType {
  const before = partsOf(type);
  const parts = before.map(map);
  if (parts.every((part, at) => part === before[at])) return type;
  const [first = ANY] = parts;
  switch (type.kind) {
    case "list":
      return { kind: "list", item: first };
    case "dict":
      return { kind: "dict", value: first };
    case "tuple":
      return { kind: "tuple", items: parts };
    case "union":
      return { kind: "union", members: parts };
    case "annotated":
      return { ...type, base: first };
    default:
      return type;
  }
}

/** Renames the classes in a type. Returns the same type if nothing changes. */
export function renamed(type: PyType, nameOf: (name: string) => string): PyType {
  if (type.kind !== "class") return mapParts(type, (part) => renamed(part, nameOf));
  const name = nameOf(type.name);
  return name === type.name ? type : { kind: "class", name };
}

export function annotated(base: PyType, constraints: readonly Constraint[]): PyType {
  return constraints.length === 0 ? base : { kind: "annotated", base, constraints };
}
