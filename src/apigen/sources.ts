import { McpLoginRequiredError, ToolCallError } from "../errors.ts";
import { connectMcp, type ConnectOptions } from "../mcp/connect.ts";
import { checkServerName } from "../mcp/server_name.ts";
import type { ServerParams } from "../mcp/server_params.ts";
import { shellWord } from "../mcp/shell_word.ts";
import { type GeneratedTool, generatePackage } from "./generate.ts";

/** Options of {@linkcode generateMcpSources}. */
export interface GenerateMcpSourcesOptions extends
  Pick<
    ConnectOptions,
    "connectTimeoutMs" | "workspace" | "settingsFiles" | "variables" | "login" | "signal" | "log"
  > {
  /** The folder that holds the packages of all servers, usually `mcptools` in the workspace. */
  rootDir: string;
  /**
   * Called before anything is written, once the server has told its tools. What it returns is called
   * if the package then cannot be written, and undoes what it did.
   */
  beforeWrite?: (() => Promise<() => Promise<void>>) | undefined;
}

/** How long a server's list must stay as it is: some servers add tools after the handshake. */
const SETTLE_MS = 300;

/**
 * Connects to an MCP server and generates the Python package for its tools, in place of an older one.
 * What a user has added to a module stays.
 *
 * @param serverName The name of the package: a Python identifier in lower case.
 * @param params How the server is started or reached. `${VAR}` is filled in now and not written.
 * @param options Where the package goes, and how long to wait for the server.
 * @returns What became of each tool, in the order of the server's list.
 * @throws {TypeError} The server's name is none that a package can have.
 * @throws {ConfigError} A variable is not set or the parameters make no sense; nothing was started.
 * @throws {McpLoginRequiredError} The server asks for a login, and `login` is not given.
 * @throws {McpConnectionError} The server does not start, cannot be reached, or does not answer in
 * time. The older package stays.
 *
 * @example
 * ```ts
 * import { generateMcpSources } from "@ipybox/ipybox";
 *
 * const server = { command: "npx", args: ["-y", "@modelcontextprotocol/server-everything"] };
 * const tools = await generateMcpSources("everything", server, { rootDir: "mcptools" });
 * for (const { tool, module } of tools) console.error(`${tool} → mcptools.everything.${module}`);
 * ```
 */
export async function generateMcpSources(
  serverName: string,
  params: ServerParams,
  options: GenerateMcpSourcesOptions,
): Promise<GeneratedTool[]> {
  const { rootDir, beforeWrite, ...connectOptions } = options;
  checkServerName(serverName);
  await using connection = await connectMcp(serverName, params, connectOptions)
    .catch((error) => {
      throw asRegistration(error, params, options);
    });
  const { signal } = options;
  const listOptions = { settleMs: SETTLE_MS, ...(signal === undefined ? {} : { signal }) };
  // Some servers ask for a login only here.
  const listing = await connection.describe(listOptions).catch((error) => {
    throw asRegistration(error, params, options);
  });
  options.signal?.throwIfAborted();
  const undo = await beforeWrite?.();
  try {
    return await generatePackage(serverName, listing, { rootDir });
  } catch (error) {
    await undo?.();
    throw error;
  }
}

/** A server that is not registered yet is not logged in to by its name. */
function asRegistration(
  error: unknown,
  params: ServerParams,
  { workspace }: GenerateMcpSourcesOptions,
): unknown {
  const cause = error instanceof ToolCallError ? error.cause : error;
  if (!(cause instanceof McpLoginRequiredError) || !("url" in params)) return error;
  const where = workspace === undefined ? [] : ["--workspace", workspace];
  const words = ["ipybox", "register", cause.serverName, "--url", params.url, ...where];
  return new McpLoginRequiredError(cause.serverName, cause.what, words.map(shellWord).join(" "));
}
