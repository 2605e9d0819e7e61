/**
 * Signatures and stubs of tools for readers who want to call them, in plain Python types.
 *
 * @module
 */
import type { ObservedResults } from "../json/shape.ts";
import { modelOf } from "./module_builder.ts";
import { type Json, JsonNumber, type JsonObject } from "./json.ts";
import {
  type ClassDefinition,
  classNamed,
  type Definition,
  type Field,
  type ModuleModel,
  type ModuleOrigin,
  type ObservedField,
  type ObservedResult,
  type PyType,
} from "./model.ts";
import { observedIn } from "./observed.ts";
import { breakable, classText, laidOut, type Layout, literal, oneLine } from "./python.ts";
import { plain, typeText } from "./value_types.ts";

/** How many characters of nested classes a signature shows. */
const MAX_NESTED = 300;
/** How many characters of observed classes a signature shows. */
const MAX_OBSERVED = 600;
/** How many characters of a description are shown. */
const MAX_DESCRIPTION = 240;

/** A tool's function on one line, and the classes of its result if there is room, without constraints. */
export function signatureOf(
  origin: ModuleOrigin,
  definition: JsonObject,
  results?: ObservedResults,
): string {
  const model = modelOf(origin, definition, results);
  const list = parametersOf(model, parameter, "**others").join(", ");
  const head = `${model.module}.run(${list}) -> ${resultOf(model)}`;
  const nested: string[] = [];
  let room = MAX_NESTED;
  for (const shown of resultClasses(model).filter(({ name }) => name !== "Result")) {
    const line = `  ${shown.name}(${shown.fields.map(fieldText).join(", ")})`;
    room -= line.length;
    if (room < 0) break;
    nested.push(line);
  }
  return [head, ...nested, ...observedLines(model)].join("\n");
}

/** The signature of `run_json()`. */
function observedLines({ module, observed }: ModuleModel, room?: number): string[] {
  if (observed === undefined) return [];
  const type = typeText(observed.type);
  return [
    `${module}.run_json(...) -> ${type}  # ${observedIn(observed)}, not declared`,
    ...observedClasses(observed, room),
  ];
}

/** The classes of observed results, outer ones first, as far as there is room. */
export function observedClasses({ classes }: ObservedResult, room = MAX_OBSERVED): string[] {
  const lines: string[] = [];
  for (const { name, fields } of classes.toReversed()) {
    const line = `  ${name}: {${fields.map(observedField).join(", ")}}`;
    room -= line.length;
    if (room < 0 && lines.length > 0) break;
    lines.push(room < 0 ? `${line.slice(0, room).toWellFormed()}…` : line);
  }
  return lines;
}

function observedField({ wire, type, always }: ObservedField): string {
  const text = typeText(type);
  return `${literal(wire)}: ${always ? text : `NotRequired[${text}]`}`;
}

/** All that is needed to call a tool: its function and classes, with descriptions and constraints. */
export function stubOf(
  origin: ModuleOrigin,
  definition: JsonObject,
  results?: ObservedResults,
): string {
  const model = modelOf(origin, definition, results);
  const written = (field: Field) => described(parameter(field), ",", field);
  const lines = parametersOf(model, written, "**others,");
  const list = lines.length === 0 ? "" : `\n    ${lines.join("\n    ")}\n`;
  const result = model.returns === "result" ? "Result" : "str";
  const others = model.definitions.filter(({ name }) => name !== "Params").map(stubOfDefinition);
  return [
    `${model.module}.run(${list}) -> ${result}`,
    ...others,
    ...observedLines(model, Infinity),
  ].join("\n");
}

function stubOfDefinition(definition: Definition): string {
  const { name } = definition;
  if (definition.kind !== "class") return `${name} = ${typeText(plain(definition.type))}`;
  const body = definition.fields.map((field) => described(fieldText(field), "", field));
  return classText(name, body);
}

function parametersOf(
  model: ModuleModel,
  written: (field: Field) => string,
  others: string,
): string[] {
  const { fields = [], extra } = classNamed(model, "Params") ?? {};
  return [...fields.map(written), ...(extra === undefined ? [] : [others])];
}

/** The return type, with the fields of an object. */
function resultOf(model: ModuleModel): string {
  if (model.returns !== "result") return "str";
  const result = model.definitions.find(({ name }) => name === "Result");
  if (result?.kind === "class") return `Result(${result.fields.map(fieldText).join(", ")})`;
  return result?.kind === "root" ? `Result[${typeText(plain(result.type))}]` : "Result";
}

/** The classes of a result, which are defined after the parameters. */
function resultClasses({ definitions }: ModuleModel): ClassDefinition[] {
  const params = definitions.findIndex(({ name }) => name === "Params");
  return definitions.slice(params + 1).filter((part) => part.kind === "class");
}

function fieldText({ name, type }: Field): string {
  return `${name}: ${typeText(plain(type))}`;
}

/** A line with a comment: its description and constraints. */
function described(line: string, end: string, { type, description }: Field): string {
  const words = oneLine(description);
  const short = words.length <= MAX_DESCRIPTION
    ? words
    : `${words.slice(0, MAX_DESCRIPTION).toWellFormed().trimEnd()} …`;
  const notes = [short, ...limitsOf(type)].filter((note) => note !== "");
  return notes.length === 0 ? line + end : `${line}${end}  # ${notes.join("; ")}`;
}

/** The constraints of a type, in short. */
function limitsOf(type: PyType): string[] {
  if (type.kind === "union") return type.members.flatMap(limitsOf);
  if (type.kind !== "annotated") return [];
  return [
    ...limitsOf(type.base),
    ...type.constraints.flatMap((constraint) => {
      switch (constraint.kind) {
        case "field":
          return constraint.arguments.filter(([keyword]) => keyword in LIMITS).map(
            ([keyword, value]) =>
              `${LIMITS[keyword]} ${value instanceof JsonNumber ? value.source : value}`,
          );
        case "pattern":
          return [`matches ${constraint.source.slice(0, 100)}`];
        case "multipleOf":
          return [`multiple of ${constraint.step.source}`];
        case "unique":
          return ["unique items"];
      }
    }),
  ];
}

const LIMITS: Readonly<Record<string, string>> = {
  ge: ">=",
  gt: ">",
  le: "<=",
  lt: "<",
  min_length: "length >=",
  max_length: "length <=",
  pattern: "matches",
};

function parameter(field: Field): string {
  const text = fieldText(field);
  return field.required ? text : `${text} = ${literal(field.default ?? null)}`;
}

// Example calls, with the required arguments.

/** The lines of an example that imports and calls a tool. */
export function callExample(model: ModuleModel): string[] {
  const module = nameIn(model);
  const parameters = samplesOf(model, "Params", 0);
  const call = laidOut(breakable(`${module}.run(`, parameters, ")"), 4, 0);
  const importLine = module === model.module
    ? `from mcptools.${model.server} import ${model.module}`
    : `from mcptools import ${model.server}`;
  return [importLine, ...call.split("\n")];
}

/** The module's name in an example. Importing one such as `set` would shadow a builtin. */
function nameIn({ server, module }: ModuleModel): string {
  return BUILTINS.has(module) ? `${server}.${module}` : module;
}

const BUILTINS = new Set(
  ("abs aiter all anext any ascii bin bool breakpoint bytearray bytes callable chr classmethod compile " +
    "complex copyright credits delattr dict dir display divmod enumerate eval exec exit filter float " +
    "format frozenset getattr globals hasattr hash help hex id input int isinstance issubclass iter " +
    "len license list locals map max memoryview min next object oct open ord pow print property quit " +
    "range repr reversed round set setattr slice sorted staticmethod str sum super tuple type vars zip")
    .split(" "),
);

/** How many arguments or items an example shows: each may be an object with as many. */
const MAX_SAMPLES = 12;

function samplesOf(model: ModuleModel, name: string, depth: number): Layout[] {
  const required = classNamed(model, name)?.fields.filter((field) => field.required) ?? [];
  return required.slice(0, MAX_SAMPLES).map((field) => {
    const value = sample(field.type, model, depth);
    return typeof value === "string"
      ? `${field.name}=${value}`
      : { ...value, open: `${field.name}=${value.open}` };
  });
}

function sample(type: PyType, model: ModuleModel, depth: number): Sample {
  switch (type.kind) {
    case "name":
      return {
        str: '"..."',
        Int: "1",
        Num: "1",
        Bool: "True",
        None: "None",
        Null: "None",
        Any: "...",
        Never: "...",
      }[
        type.name
      ];
    case "class": {
      const definition = model.definitions.find(({ name }) => name === type.name);
      if (definition?.kind === "values") return sample(definition.type, model, depth);
      if (depth > 1 || definition?.kind !== "class") return "...";
      const open = `${nameIn(model)}.${type.name}(`;
      return brackets(open, samplesOf(model, type.name, depth + 1), ")");
    }
    case "literal":
      return short(type.values[0] ?? "");
    case "oneOf":
      return short(type.values[0] ?? null);
    case "list":
      return brackets("[", [sample(type.item, model, depth)], "]");
    case "tuple":
      return type.items.length > MAX_SAMPLES
        ? "..."
        : brackets("[", type.items.map((item) => sample(item, model, depth)), "]");
    case "dict":
      return "{}";
    case "union":
      return type.members[0] === undefined ? "..." : sample(type.members[0], model, depth);
    case "annotated":
      return annotatedSample(type, model, depth);
  }
}

function annotatedSample(
  type: Extract<PyType, { kind: "annotated" }>,
  model: ModuleModel,
  depth: number,
): Sample {
  const limits = type.constraints.flatMap((limit) => limit.kind === "field" ? limit.arguments : []);
  const least = limits.find(([keyword, limit]) => keyword === "ge" && limit instanceof JsonNumber);
  return least?.[1] instanceof JsonNumber ? literal(least[1]) : sample(type.base, model, depth);
}

/** A sample value, which may break into lines. */
type Sample = string | Extract<Layout, { kind: "brackets" }>;

function brackets(open: string, parts: readonly Layout[], close: string): Sample {
  return parts.length === 0 ? open + close : { kind: "brackets", open, parts, close };
}

function short(value: Json): string {
  const text = literal(value);
  return text.length <= 60 ? text : "...";
}
