/**
 * Types as the text of Python annotations.
 *
 * @module
 */
import { type Json, JsonNumber } from "./json.ts";
import type { Constraint, PyType } from "./model.ts";
import { breakable, joined, type Layout } from "./layout.ts";
import { literal } from "./python.ts";
import { spend, spendText } from "./work.ts";

const texts = new WeakMap<PyType, string>();

/** The text of a type in one line. */
export function typeText(type: PyType): string {
  const known = texts.get(type);
  if (known !== undefined) return known;
  const text = joined(typeLayout(type));
  spendText(text);
  texts.set(type, text);
  return text;
}

/** The text of a type with the places where a line may break. */
export function typeLayout(type: PyType): Layout {
  spend(2);
  switch (type.kind) {
    case "name":
    case "class":
      return type.name;
    case "literal":
      return breakable("Literal[", type.values.map(literal), "]");
    case "oneOf":
      return breakable("Annotated[", [oneOfBase(type.values), call("one_of", type.values)], "]");
    case "list":
      return breakable("list[", [typeLayout(type.item)], "]");
    case "dict":
      return breakable("dict[", ["str", typeLayout(type.value)], "]");
    case "tuple":
      return breakable("tuple[", type.items.map(typeLayout), "]");
    case "union":
      return { kind: "union", members: type.members.map(typeLayout) };
    case "annotated": {
      const parts = [typeLayout(type.base), ...type.constraints.map(constraintLayout)];
      return breakable("Annotated[", parts, "]");
    }
  }
}

type Values = Extract<PyType, { kind: "oneOf" }>["values"];

/**
 * Whether listed values can be a `Literal`, too: Python's knows no floats and no containers, and holds
 * True for 1.
 */
export function hasLiteralBase(values: Values): boolean {
  const isText = (value: Json) => typeof value === "string" && value.isWellFormed();
  const isInteger = (value: Json) =>
    value instanceof JsonNumber && /^(?:0|-?[1-9]\d*)$/.test(value.source);
  return values.every((value) => isText(value) || isInteger(value)) ||
    values.every((value) => isText(value) || typeof value === "boolean");
}

function oneOfBase(values: Values): Layout {
  return hasLiteralBase(values) ? breakable("Literal[", values.map(literal), "]") : "Any";
}

function call(name: string, values: Values): Layout {
  return breakable(`${name}(`, values.map(literal), ")");
}

function constraintLayout(constraint: Constraint): Layout {
  switch (constraint.kind) {
    case "field": {
      const parts = constraint.arguments.map(([keyword, value]) =>
        `${keyword}=${literal(typeof value === "number" ? new JsonNumber(String(value)) : value)}`
      );
      return breakable("Field(", parts, ")");
    }
    case "pattern": {
      const { source, longest } = constraint.pattern;
      const parts = longest === undefined ? [literal(source)] : [literal(source), String(longest)];
      return breakable("pattern(", parts, ")");
    }
    case "multipleOf":
      return `multiple_of(${constraint.step.source})`;
    case "unique":
      return "unique";
  }
}
