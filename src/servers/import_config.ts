import { ConfigError } from "../base/errors.ts";
import { parseFile } from "../json/document.ts";
import { isRecord } from "../json/exact.ts";
import {
  checkServerName,
  parseServerParams,
  replaceVariables,
  serverNameFrom,
  type ServerParams,
} from "../mcp/params.ts";

/** The servers in another program's configuration file. */
interface ImportedServers {
  /** Their parameters by their names here, in the order of the file. */
  readonly servers: ReadonlyMap<string, ServerParams>;
  /** The names in the file of renamed servers, by their new names. */
  readonly renamed: ReadonlyMap<string, string>;
  /** Why servers cannot be used, by their names in the file. */
  readonly unusable: ReadonlyMap<string, ConfigError>;
}

/** Where files list servers: most programs, VS Code's `mcp.json`, VS Code's settings. */
const PLACES: readonly (readonly string[])[] = [["mcpServers"], ["servers"], ["mcp", "servers"]];

/** Variables in editors' files: `${env:VAR}`, `${userHome}`, `${input:NAME}`. */
const EDITOR_VARIABLE = /^(?:env:(\w+)|(userHome)|([A-Za-z]+:[^]*))$/;

/**
 * Reads servers from another program's file, such as `{"mcpServers": {…}}`, `.vscode/mcp.json` or VS
 * Code's `settings.json`. Comments and trailing commas are allowed. Names become Python identifiers:
 * `brave-search` becomes `brave_search`. `${env:VAR}` becomes `${VAR}`.
 */
export function parseServersFile(path: string, text: string): ImportedServers {
  const servers = new Map<string, ServerParams>();
  const renamed = new Map<string, string>();
  const unusable = new Map<string, ConfigError>();
  for (
    const [given, params] of Object.entries(
      serversIn(path, parseFile(path, text, { comments: true }).value),
    )
  ) {
    const name = serverNameFrom(given) ?? given;
    try {
      if (servers.has(name)) throw takenName(given, renamed.get(name) ?? name, name);
      checkServerName(name);
      servers.set(name, parseServerParams(name, withOwnVariables(given, params)));
      if (name !== given) renamed.set(name, given);
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      unusable.set(given, new ConfigError(`${error.message}, in ${path}`, { cause: error }));
    }
  }
  return { servers, renamed, unusable };
}

function serversIn(path: string, file: unknown): Readonly<Record<string, unknown>> {
  for (const place of PLACES) {
    const found = place.reduce<unknown>((at, key) => isRecord(at) ? at[key] : undefined, file);
    if (found === undefined) continue;
    if (isRecord(found)) return found;
    throw new ConfigError(`Invalid servers in ${path}: "${place.join(".")}" must be an object`);
  }
  const places = PLACES.map((place) => `"${place.join(".")}"`).join(", ");
  throw new ConfigError(`No servers in ${path}: it has none of ${places}`);
}

/**
 * Converts an editor's variables to ours. Throws for variables that only the editor can fill in.
 */
function withOwnVariables(server: string, value: unknown): unknown {
  if (typeof value === "string") {
    return replaceVariables(value, (body) => {
      const [, variable, home, other] = EDITOR_VARIABLE.exec(body) ?? [];
      if (variable !== undefined) return `\${${variable}}`;
      if (home !== undefined) return "${HOME}";
      if (other === undefined) return undefined;
      throw new ConfigError(
        `"${server}" uses \${${body}}, which only the editor can fill in: replace it with \${NAME}, ` +
          "and set NAME in the environment or in the workspace's .env",
      );
    });
  }
  if (Array.isArray(value)) return value.map((inner) => withOwnVariables(server, inner));
  if (!isRecord(value)) return value;
  const entries = Object.entries(value).map(([key, inner]) => [
    key,
    withOwnVariables(server, inner),
  ]);
  return Object.fromEntries(entries);
}

function takenName(given: string, other: string, name: string): ConfigError {
  const both = `${JSON.stringify(other)} and ${JSON.stringify(given)}`;
  return new ConfigError(`Servers ${both} would both be "${name}" in Python`);
}
