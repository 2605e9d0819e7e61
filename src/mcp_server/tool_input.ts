/** The input schemas of tools, in a form that all clients can handle. */
import { z } from "zod";
import { isRecord } from "../json/exact.ts";
import type { StandardSchemaWithJSON } from "./sdk.ts";

/** Derives the declared input schema of a tool from its own, once it is needed. */
export type DeclareInput = <Input, Output>(
  schema: () => StandardSchemaWithJSON<Input, Output>,
) => StandardSchemaWithJSON<Input, Output>;

/** The subset of JSON Schema that every model provider accepts, including OpenAI's strict mode and Gemini. */
interface PlainSchema {
  type: string;
  description?: string;
  enum?: string[];
  default?: unknown;
  items?: PlainSchema;
  properties?: Record<string, PlainSchema>;
  required?: string[];
}

/** Drops everything else, such as bounds, which the tool checks itself. */
const plainSchema: z.ZodType<PlainSchema> = z.lazy(() =>
  z.object({
    type: z.string(),
    description: z.string().optional(),
    enum: z.array(z.string()).optional(),
    default: z.unknown().optional(),
    items: plainSchema.optional(),
    properties: z.record(z.string(), plainSchema).optional(),
    required: z.array(z.string()).optional(),
  })
);

/** Declares arguments in that subset, but also accepts `null`, empty values and numbers as text. */
export const forClients: DeclareInput = (schema) => {
  const own = once(() => schema()["~standard"]);
  const declared = once(() =>
    plainSchema.parse(own().jsonSchema.input({ target: "draft-2020-12" }))
  );
  return {
    "~standard": {
      version: 1,
      vendor: "ipybox",
      validate: (value, options) => own().validate(taken(value, declared()), options),
      jsonSchema: {
        input: () => ({ ...declared() }),
        output: (options) => own().jsonSchema.output(options),
      },
    },
  };
};

const SESSION: PlainSchema = {
  type: "string",
  description: "Handle from open_session (default: the shared session)",
  default: "",
};

/** Adds the argument `session`, which selects one, and is removed before the tool sees it. */
export const withSession: DeclareInput = (schema) => {
  const own = forClients(schema)["~standard"];
  return {
    "~standard": {
      ...own,
      jsonSchema: {
        ...own.jsonSchema,
        input: (options) => {
          const declared = plainSchema.parse(own.jsonSchema.input(options));
          return { ...declared, properties: { ...declared.properties, session: SESSION } };
        },
      },
    },
  };
};

/** Creates a value when it is first needed. */
function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined;
  return () => (made ??= { value: make() }).value;
}

/** A value without empty arguments, and with numbers as numbers. */
function taken(value: unknown, { type, properties = {}, required = [] }: PlainSchema): unknown {
  if ((type === "number" || type === "integer") && typeof value === "string") {
    const number = Number(value);
    return value.trim() === "" || Number.isNaN(number) ? value : number;
  }
  if (type !== "object" || !isRecord(value)) return value;
  const given = Object.entries(value).filter(([name, inner]) =>
    !Object.hasOwn(properties, name) || required.includes(name) || !isEmpty(inner)
  );
  return Object.fromEntries(given.map(([name, inner]) => {
    const schema = Object.hasOwn(properties, name) ? properties[name] : undefined;
    return [name, schema === undefined ? inner : taken(inner, schema)];
  }));
}

function isEmpty(value: unknown): boolean {
  if (value === null || value === "") return true;
  return typeof value === "object" && Object.keys(value).length === 0;
}
