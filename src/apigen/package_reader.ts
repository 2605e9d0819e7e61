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
  /** What its server says that it does, and does not do. */
  readonly annotations: Readonly<Record<string, boolean>>;
  /** Its whole definition. */
  readonly definition: JsonObject;
}

/** Reads which tools a generated package has, from the definitions that it keeps. */
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
    annotations: hintsOf(definition.get("annotations")),
    definition,
  }));
}

function hintsOf(annotations: Json | undefined): Record<string, boolean> {
  if (!isObject(annotations)) return {};
  return Object.fromEntries(
    [...annotations].filter((entry): entry is [string, boolean] => typeof entry[1] === "boolean"),
  );
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
