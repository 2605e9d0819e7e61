/**
 * Examples of calls, made of what a tool requires.
 *
 * @module
 */
import { type Json, JsonNumber } from "./json.ts";
import type { ClassDefinition, ModuleModel, PyType } from "./model.ts";
import { literal } from "./python.ts";

/**
 * Lines that import and call a tool.
 *
 * @param model The tool's module.
 * @returns The lines.
 */
export function callExample(model: ModuleModel): string[] {
  const importLine = `from mcptools.${model.server} import ${model.module}`;
  const required = requiredFields(model, "Params");
  const parameters = required.map(({ name, type }) => `${name}=${sample(type, model, 0)}`);
  const call = `${model.module}.run(${parameters.join(", ")})`;
  if (call.length <= 90) return [importLine, "", call];
  return [
    importLine,
    "",
    `${model.module}.run(`,
    ...parameters.map((parameter) =>
      `    ${parameter.length <= 85 ? parameter : shortened(parameter)},`
    ),
    ")",
  ];
}

function shortened(parameter: string): string {
  return parameter.replace(/=.*$/s, "=...");
}

function requiredFields(model: ModuleModel, name: string): ClassDefinition["fields"] {
  const definition = model.definitions.find((definition) => definition.name === name);
  if (definition?.kind !== "class") return [];
  return definition.fields.filter((field) => field.required).slice(0, 12);
}

function sample(type: PyType, model: ModuleModel, depth: number): string {
  switch (type.kind) {
    case "name":
      return {
        str: '"..."',
        Int: "1",
        Num: "1",
        Bool: "True",
        None: "None",
        Any: "...",
        Never: "...",
      }[
        type.name
      ];
    case "class": {
      if (depth > 1) return "...";
      const fields = requiredFields(model, type.name);
      const parameters = fields.map((field) =>
        `${field.name}=${sample(field.type, model, depth + 1)}`
      );
      return `${model.module}.${type.name}(${parameters.join(", ")})`;
    }
    case "literal":
      return short(type.values[0] ?? "");
    case "oneOf":
      return short(type.values[0] ?? null);
    case "list":
      return `[${sample(type.item, model, depth)}]`;
    case "tuple":
      return `[${type.items.map((item) => sample(item, model, depth)).join(", ")}]`;
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
): string {
  const limits = type.constraints.flatMap((limit) => limit.kind === "field" ? limit.arguments : []);
  const least = limits.find(([keyword, limit]) => keyword === "ge" && limit instanceof JsonNumber);
  return least?.[1] instanceof JsonNumber ? literal(least[1]) : sample(type.base, model, depth);
}

function short(value: Json): string {
  const text = literal(value);
  return text.length <= 60 ? text : "...";
}
