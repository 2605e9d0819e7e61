/**
 * Examples of calls, made of what a tool requires.
 *
 * @module
 */
import { type Json, JsonNumber } from "./json.ts";
import type { ClassDefinition, ModuleModel, PyType } from "./model.ts";
import { breakable, laidOut, type Layout } from "./layout.ts";
import { literal } from "./python.ts";
import { spend } from "./work.ts";

/** Lines that import and call a tool. */
export function callExample(model: ModuleModel): string[] {
  const module = nameIn(model);
  const parameters = samplesOf(model, "Params", 0);
  const call = laidOut(breakable(`${module}.run(`, parameters, ")"), 4, 0);
  const importLine = module === model.module
    ? `from mcptools.${model.server} import ${model.module}`
    : `from mcptools import ${model.server}`;
  return [importLine, ...call.split("\n")];
}

/** What an example calls a module: one such as `set` would hide a builtin that the session needs. */
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

function samplesOf(model: ModuleModel, name: string, depth: number): Layout[] {
  return requiredFields(model, name).map((field) => {
    const value = sample(field.type, model, depth);
    return typeof value === "string"
      ? `${field.name}=${value}`
      : { ...value, open: `${field.name}=${value.open}` };
  });
}

function requiredFields(model: ModuleModel, name: string): ClassDefinition["fields"] {
  const definition = model.definitions.find((definition) => definition.name === name);
  if (definition?.kind !== "class") return [];
  return definition.fields.filter((field) => field.required).slice(0, 12);
}

function sample(type: PyType, model: ModuleModel, depth: number): Sample {
  spend(5);
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
      spend(model.definitions.length / 4);
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
      return brackets("[", type.items.map((item) => sample(item, model, depth)), "]");
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

/** A value, which may break into lines. */
type Sample = string | Extract<Layout, { kind: "brackets" }>;

function brackets(open: string, parts: readonly Layout[], close: string): Sample {
  return parts.length === 0 ? open + close : { kind: "brackets", open, parts, close };
}

function short(value: Json): string {
  const text = literal(value);
  return text.length <= 60 ? text : "...";
}
