import { visible } from "../approval/call_text.ts";
import type { FormField } from "../mcp/form.ts";
import type { ElicitForm } from "./sdk.ts";

type FormSchema = ElicitForm["requestedSchema"];
type FieldSchema = FormSchema["properties"][string];

/**
 * A form of an MCP server, written anew for the client: only what was read and checked of it, in the
 * spelling that clients of all versions know.
 */
export function formSchema(fields: readonly FormField[]): FormSchema {
  return {
    type: "object",
    properties: Object.fromEntries(fields.map((field) => [field.name, fieldSchema(field)])),
    required: fields.filter(({ required }) => required).map(({ name }) => name),
  };
}

function fieldSchema(field: FormField): FieldSchema {
  const base = {
    title: visible(field.title),
    ...given({ description: field.description && visible(field.description) }),
  };
  switch (field.type) {
    case "text": {
      const { minLength, maxLength, format } = field;
      return {
        type: "string",
        ...base,
        ...given({ minLength, maxLength, format, default: field.default }),
      };
    }
    case "number":
    case "integer": {
      const { type, minimum, maximum } = field;
      return { type, ...base, ...given({ minimum, maximum, default: field.default }) };
    }
    case "boolean":
      return { type: "boolean", ...base, ...given({ default: field.default }) };
    case "choice":
      return {
        type: "string",
        ...base,
        enum: field.options.map(({ value }) => value),
        enumNames: field.options.map(({ title }) => visible(title)),
        ...given({ default: field.default }),
      };
    case "choices": {
      const { minItems, maxItems } = field;
      const options = field.options.map(({ value, title }) => ({
        const: value,
        title: visible(title),
      }));
      return {
        type: "array",
        ...base,
        items: { anyOf: options },
        ...given({ minItems, maxItems, default: field.default && [...field.default] }),
      };
    }
  }
}

/** The properties that have a value. */
function given<T extends Record<string, unknown>>(
  values: T,
): { [Name in keyof T]?: Exclude<T[Name], undefined> } {
  const kept: { [Name in keyof T]?: Exclude<T[Name], undefined> } = {};
  for (const name in values) {
    const value = values[name];
    if (isGiven(value)) kept[name] = value;
  }
  return kept;
}

function isGiven<T>(value: T): value is Exclude<T, undefined> {
  return value !== undefined;
}
