import { join } from "node:path";
import { ConfigError } from "../errors.ts";
import { readHostileFile } from "../mcp/hostile_files.ts";
import { isArray, isObject, type Json, type JsonObject, toJson } from "./json.ts";
import { moduleNames } from "./names.ts";

/** A tool of a generated package. */
export interface PackageTool {
  /** Its name on the wire. */
  readonly name: string;
  /** Its module in the package. */
  readonly module: string;
  /** What its server says of it. */
  readonly description: string;
  /** Its whole definition. */
  readonly definition: JsonObject;
}

/**
 * Reads which tools a generated package has, from the definitions that it keeps.
 *
 * @param root The folder of all packages.
 * @param server The server's name, checked before.
 * @returns The tools in the server's order, or `undefined` where there is no package.
 * @throws {ConfigError} The file is damaged.
 */
export async function readPackage(
  root: string,
  server: string,
): Promise<PackageTool[] | undefined> {
  const path = join(root, server, "schema.json");
  const text = await readHostileFile(path);
  if (text === undefined) return undefined;
  const definitions = parse(path, text);
  const modules = moduleNames(definitions.map(nameOf));
  return definitions.map((definition) => ({
    name: nameOf(definition),
    module: modules.get(nameOf(definition)) ?? "",
    description: textOf(definition.get("description")),
    definition,
  }));
}

function parse(path: string, text: string): JsonObject[] {
  const damaged = (cause?: unknown) =>
    new ConfigError(`${path} is damaged: register the server again`, { cause });
  let json: Json | undefined;
  try {
    json = toJson(JSON.parse(text));
  } catch (cause) {
    throw damaged(cause);
  }
  const tools = isObject(json) ? json.get("tools") : undefined;
  if (!isArray(tools)) throw damaged();
  return tools.map((tool) => {
    if (isObject(tool) && typeof tool.get("name") === "string") return tool;
    throw damaged();
  });
}

function nameOf(definition: JsonObject): string {
  return textOf(definition.get("name"));
}

function textOf(value: Json | undefined): string {
  return typeof value === "string" ? value : "";
}
