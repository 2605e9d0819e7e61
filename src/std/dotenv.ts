/**
 * `@std/dotenv` by its bare name: its `parse` and `load`, over Node's own `.env` parser.
 *
 * @module
 */
import { parseEnv } from "node:util";

/** Options of {@linkcode load}. */
export interface LoadOptions {
  /**
   * The file to read, or `null` for none.
   *
   * @default {".env"}
   */
  envPath?: string | URL | null;
  /**
   * Whether variables that the process does not have yet are set in it.
   *
   * @default {false}
   */
  export?: boolean;
}

/** Parses the text of a `.env` file. */
export function parse(text: string): Record<string, string> {
  const variables: Record<string, string> = {};
  for (const [name, value] of Object.entries(parseEnv(text))) {
    if (value !== undefined) variables[name] = value;
  }
  return variables;
}

/** Reads a `.env` file; a file that does not exist has no variables. */
export async function load(options: LoadOptions = {}): Promise<Record<string, string>> {
  const { envPath = ".env" } = options;
  const variables = envPath === null ? {} : parse(await readIfPresent(envPath));
  if (options.export) {
    for (const [name, value] of Object.entries(variables)) {
      if (Deno.env.get(name) === undefined) Deno.env.set(name, value);
    }
  }
  return variables;
}

async function readIfPresent(path: string | URL): Promise<string> {
  try {
    return await Deno.readTextFile(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return "";
    throw error;
  }
}
