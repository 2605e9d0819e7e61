/** `@std/dotenv` by its bare name: its `parse`, over Node's own `.env` parser. */
import { parseEnv } from "node:util";

/** Parses the text of a `.env` file. */
export function parse(text: string): Record<string, string> {
  const variables: Record<string, string> = {};
  for (const [name, value] of Object.entries(parseEnv(text.replace(/^\ufeff/, "")))) {
    if (value !== undefined) variables[name] = value;
  }
  return variables;
}
