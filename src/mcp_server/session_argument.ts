import { z } from "zod";
import type { StandardSchemaWithJSON } from "./sdk.ts";

/** Makes what a tool's arguments are declared as of what it takes itself. */
export type DeclareInput = <Input, Output>(
  schema: StandardSchemaWithJSON<Input, Output>,
) => StandardSchemaWithJSON<Input, Output>;

/** For clients that are in a session already. */
export const asItIs: DeclareInput = (schema) => schema;

const objectSchema = z.looseObject({ properties: z.record(z.string(), z.unknown()).default({}) });

const SESSION = {
  type: "string",
  description: "The handle of a session, from open_session; without it, the one that calls share",
} as const;

/**
 * Declares the argument `session` beside a tool's own. It says where a call goes, and is used up by
 * the time that the tool gets its arguments.
 *
 * @param schema What the tool takes.
 * @returns What clients are told.
 */
export const withSession: DeclareInput = (schema) => {
  const own = schema["~standard"];
  return {
    "~standard": {
      ...own,
      jsonSchema: {
        ...own.jsonSchema,
        input: (options) => {
          const told = objectSchema.parse(own.jsonSchema.input(options));
          return { ...told, properties: { ...told.properties, session: SESSION } };
        },
      },
    },
  };
};
