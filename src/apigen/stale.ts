/**
 * Tells which modules of a package no longer fit the server's tools.
 *
 * @module
 */
import { isArray, isObject, type Json, keyOf, toJson } from "./json.ts";

/** How a server's tools differ from those that its package was generated from. */
export interface StaleTools {
  /** Tools whose definition is another now. */
  readonly changed: readonly string[];
  /** Tools that the package does not have. */
  readonly added: readonly string[];
  /** Tools that the server no longer has. */
  readonly removed: readonly string[];
}

/** A `schema.json` that is larger was not generated. */
const MAX_SIZE = 64 * 1024 * 1024;

/** Compares a server's tools with those that its package was generated from. */
export async function findStaleTools(
  folder: string,
  tools: readonly unknown[],
): Promise<StaleTools> {
  const before = byName(await storedTools(`${folder}/schema.json`));
  const now = byName(tools);
  return {
    changed: [...now.keys()].filter((name) =>
      before.has(name) && before.get(name) !== now.get(name)
    ),
    added: [...now.keys()].filter((name) => !before.has(name)),
    removed: [...before.keys()].filter((name) => !now.has(name)),
  };
}

async function storedTools(path: string): Promise<readonly Json[]> {
  try {
    // Code in the sandbox can write here, and must not make the host read another file.
    const { isFile, size } = await Deno.lstat(path);
    if (!isFile || size > MAX_SIZE) return [];
    const stored = toJson(JSON.parse(await Deno.readTextFile(path)));
    const tools = isObject(stored) ? stored.get("tools") : undefined;
    return isArray(tools) ? tools : [];
  } catch (error) {
    const isUnreadable = error instanceof Deno.errors.NotFound || error instanceof SyntaxError ||
      error instanceof RangeError;
    if (!isUnreadable) throw error;
    return []; // what cannot be compared counts as new
  }
}

/** Each tool's definition as text that is the same for equal ones. The first of a name counts. */
function byName(tools: readonly unknown[]): Map<string, string> {
  const texts = new Map<string, string>();
  for (const tool of tools) {
    const json = readable(tool);
    const name = isObject(json) ? json.get("name") : undefined;
    if (typeof name === "string" && json !== undefined && !texts.has(name)) {
      texts.set(name, keyOf(json));
    }
  }
  return texts;
}

/** A tool as JSON; `undefined` if it nests so deeply that it was not generated from either. */
function readable(tool: unknown): Json | undefined {
  try {
    return toJson(tool);
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}
