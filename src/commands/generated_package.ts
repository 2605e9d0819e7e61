import { join } from "node:path";
import { z } from "zod";
import { moduleNames } from "../apigen/names.ts";
import { ConfigError } from "../errors.ts";
import { readHostileFile } from "../mcp/hostile_files.ts";

/** A tool of a generated package. */
export interface PackageTool {
  /** Its name on the wire. */
  readonly name: string;
  /** Its module in the package. */
  readonly module: string;
  /** What its server says of it. */
  readonly description: string;
}

const definitions = z.object({
  tools: z.array(z.object({ name: z.string(), description: z.string().catch("") })),
});

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
  const { tools } = parse(path, text);
  const modules = moduleNames(tools.map(({ name }) => name));
  return tools.map(({ name, description }) => ({
    name,
    description,
    module: modules.get(name) ?? "",
  }));
}

function parse(path: string, text: string): z.infer<typeof definitions> {
  try {
    return definitions.parse(JSON.parse(text));
  } catch (cause) {
    throw new ConfigError(`${path} is damaged: register the server again`, { cause });
  }
}
