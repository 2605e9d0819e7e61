/**
 * A generated module as plain data: what `module_builder.ts` makes of schemas and `render.ts` turns
 * into Python.
 *
 * @module
 */
import type { Json, JsonNumber } from "./json.ts";
import { spend } from "./work.ts";

/** A type in a generated module. */
export type PyType =
  | { readonly kind: "name"; readonly name: SimpleType }
  | { readonly kind: "class"; readonly name: string }
  /** Only strings; other values need a check, since Python holds True for 1. */
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

/** A type that is a name of Python, of `typing` or of the runtime. */
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
  /** Its name on the wire. */
  readonly wire: string;
  readonly type: PyType;
  readonly required: boolean;
  /** What the server takes for it when it is not given, if Python can show that as its default. */
  readonly default: Json | undefined;
  /** The schema requires it though it has a default: that is sent where nothing else is given. */
  readonly sent: boolean;
  readonly description: string;
}

/** A base of generated classes, all of which are the runtime's. */
export type ClassBase =
  | "InputModel"
  | "CheckedModel"
  | "OutputModel"
  | "ResultModel"
  /** Without declared fields: it behaves like a dictionary. */
  | "ResultMapping"
  /** With one field, `result`: it behaves like that. */
  | "ResultValue";

/** A class for a JSON object. */
export interface ClassDefinition {
  readonly kind: "class";
  readonly name: string;
  readonly base: ClassBase;
  readonly description: string;
  readonly fields: readonly Field[];
  /** Whether undeclared fields are refused. */
  readonly closed: boolean;
  /** Whether its schema says that there may be undeclared fields; most say nothing. */
  readonly open: boolean;
  /** The type of undeclared fields, if they have one. */
  readonly extra: PyType | undefined;
  /** The schema for the check of the whole, in JSON; only with the base `CheckedModel`. */
  readonly schema: string | undefined;
}

/**
 * A name for a type: the `root` class of a result that is not an object, an `alias` for a type that
 * refers to itself or is too long to repeat, or the `values` that several fields take.
 */
export interface NamedType {
  readonly kind: "root" | "alias" | "values";
  readonly name: string;
  readonly type: PyType;
}

/** Something that a module defines. */
export type Definition = ClassDefinition | NamedType;

/** What a tool's results have been like, where its server does not say it. */
export interface ObservedResult {
  /** In how many calls. */
  readonly calls: number;
  readonly type: PyType;
  /** The objects in it, each after those that it holds. */
  readonly classes: readonly ObservedClass[];
}

/** A `TypedDict`. */
export interface ObservedClass {
  readonly name: string;
  readonly fields: readonly ObservedField[];
}

/** A name that objects had. */
export interface ObservedField {
  /** Its name on the wire. */
  readonly wire: string;
  readonly type: PyType;
  /** Whether every object had it. */
  readonly always: boolean;
}

/** All that a module holds. */
export interface ModuleModel {
  /** The server's name. */
  readonly server: string;
  /** The tool's name on the wire. */
  readonly tool: string;
  /** The module's own name. */
  readonly module: string;
  readonly title: string;
  readonly description: string;
  /** What the server says of the tool's effects, such as `"read-only"`. */
  readonly hints: readonly string[];
  /** In the order in which they are written; `Params` is one, `Result` is one if there is a schema. */
  readonly definitions: readonly Definition[];
  /** What a call gives: the text that the tool sends, that in an envelope, or a `Result`. */
  readonly returns: "text" | "envelope" | "result";
  /** What `run_json` gives, if that is known though there is no `Result`. */
  readonly observed?: ObservedResult;
  /** Classes with a cycle, which Pydantic has to be told to finish. */
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
/** Null where it is sent, though None is the default and stands for "not given". */
export const NULL: PyType = { kind: "name", name: "Null" };

/** The members of a union, or the type itself. */
export function membersOf(type: PyType): readonly PyType[] {
  return type.kind === "union" ? type.members : [type];
}

/** A type that also takes None. */
export function optional(type: PyType, none: PyType): PyType {
  if (type === ANY && none === NULL) return ANY;
  spend(membersOf(type).length);
  const members = membersOf(type).filter((member) => member !== NONE && member !== NEVER);
  return members.length === 0 ? none : { kind: "union", members: [...members, none] };
}

/** Changes the names of classes and the like in a type; the same type where there are none. */
export function renamed(type: PyType, nameOf: (name: string) => string): PyType {
  spend(1);
  switch (type.kind) {
    case "name":
    case "literal":
    case "oneOf":
      return type;
    case "class": {
      const name = nameOf(type.name);
      return name === type.name ? type : { kind: "class", name };
    }
    case "list": {
      const item = renamed(type.item, nameOf);
      return item === type.item ? type : { kind: "list", item };
    }
    case "dict": {
      const value = renamed(type.value, nameOf);
      return value === type.value ? type : { kind: "dict", value };
    }
    case "tuple": {
      const items = type.items.map((item) => renamed(item, nameOf));
      return items.every((item, at) => item === type.items[at]) ? type : { kind: "tuple", items };
    }
    case "union": {
      const members = type.members.map((member) => renamed(member, nameOf));
      const isSame = members.every((member, at) => member === type.members[at]);
      return isSame ? type : { kind: "union", members };
    }
    case "annotated": {
      const base = renamed(type.base, nameOf);
      return base === type.base ? type : { ...type, base };
    }
  }
}

/** A type with constraints. */
export function annotated(base: PyType, constraints: readonly Constraint[]): PyType {
  return constraints.length === 0 ? base : { kind: "annotated", base, constraints };
}
