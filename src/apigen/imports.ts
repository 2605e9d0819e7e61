/**
 * The imports that a generated module needs, and no others.
 *
 * @module
 */
import type { Definition, Field, ModuleModel, PyType } from "./model.ts";
import { hasLiteralBase } from "./type_text.ts";

const SOURCES: ReadonlyMap<string, readonly string[]> = new Map([
  ["typing", ["Annotated", "Any", "ClassVar", "Literal"]],
  ["pydantic", ["Field"]],
  ["typing_extensions", ["TypeAliasType"]],
  ["ipybox_runtime.models", [
    "Bool",
    "CheckedModel",
    "InputModel",
    "Int",
    "Never",
    "Null",
    "Num",
    "OutputModel",
    "ResultMapping",
    "ResultModel",
    "ResultRoot",
    "ResultValue",
    "ToolText",
    "invoke",
    "multiple_of",
    "one_of",
    "pattern",
    "sent",
    "tool",
    "unique",
  ]],
]);

/** Standard library, packages, ours: groups that a blank line sets apart. */
const GROUPS = [["typing"], ["pydantic", "typing_extensions"], ["ipybox_runtime.models"]];

/** The import statements of a module. */
export function importLines(model: ModuleModel): string {
  const used = new Set<string>(["invoke", "tool"]);
  if (model.returns !== "result") used.add("ToolText");
  for (const definition of model.definitions) useDefinition(definition, used);
  const groups = GROUPS.map((sources) =>
    sources.map((source) => {
      const names = SOURCES.get(source)?.filter((name) => used.has(name)) ?? [];
      return names.length === 0 ? "" : importLine(source, names);
    }).join("")
  );
  return groups.filter((group) => group !== "").join("\n");
}

function importLine(source: string, names: readonly string[]): string {
  const start = `from ${source} import `;
  const line = start + names.join(", ");
  // What tools that sort imports take for the longest line, though others may be longer.
  if (line.length <= 88) return `${line}\n`;
  return `${start}(\n${names.map((name) => `    ${name},\n`).join("")})\n`;
}

function useDefinition(definition: Definition, used: Set<string>): void {
  switch (definition.kind) {
    case "values":
      useType(definition.type, used);
      return;
    case "alias": // its type is text
      used.add("TypeAliasType");
      useType(definition.type, used);
      return;
    case "root":
      used.add("ResultRoot");
      useType(definition.type, used);
      return;
    case "class":
      used.add(definition.base);
      if (definition.schema !== undefined) used.add("ClassVar");
      definition.fields.forEach((field) => useField(field, used));
      if (definition.extra !== undefined) {
        used.add("Field");
        useType(definition.extra, used);
      }
  }
}

function useField(field: Field, used: Set<string>): void {
  if (field.name !== field.wire) used.add("Annotated").add("Field");
  if (field.sent) used.add("sent");
  useType(field.type, used);
}

function useType(type: PyType, used: Set<string>): void {
  switch (type.kind) {
    case "name":
      used.add(type.name);
      return;
    case "class":
      return;
    case "literal":
      used.add("Literal");
      return;
    case "oneOf":
      used.add("Annotated").add("one_of").add(hasLiteralBase(type.values) ? "Literal" : "Any");
      return;
    case "list":
      return useType(type.item, used);
    case "dict":
      return useType(type.value, used);
    case "tuple":
      return type.items.forEach((item) => useType(item, used));
    case "union":
      return type.members.forEach((member) => useType(member, used));
    case "annotated":
      used.add("Annotated");
      for (const constraint of type.constraints) used.add(CONSTRAINT_NAMES[constraint.kind]);
      return useType(type.base, used);
  }
}

const CONSTRAINT_NAMES = {
  field: "Field",
  pattern: "pattern",
  multipleOf: "multiple_of",
  unique: "unique",
} as const;
