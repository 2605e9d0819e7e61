import { McpConnectionError, ToolCallError } from "../errors.ts";
import { connectMcp } from "../mcp/connect.ts";
import type { HttpServerParams, ServerParams } from "../mcp/server_params.ts";
import { ServerRegistry } from "../tool_server/server_registry.ts";
import { type Command, type CommandIo, EXIT, parseCommandLine, UsageError } from "./command.ts";
import { LOGIN_OPTIONS, loginAt } from "./login_page.ts";
import { requireServerName, WORKSPACE, workspaceOf } from "./shared.ts";

/** `ipybox login`: logs in to a registered server anew. */
export const login: Command = {
  name: "login",
  summary: "Log in to a registered remote MCP server",
  usage: "NAME [OPTIONS]",
  options: { ...LOGIN_OPTIONS, workspace: WORKSPACE },
  notes: [
    "The page is printed: open it in a browser on this machine. `ipybox register`",
    "logs in by itself; this is for when a login has ended, or allows too little.",
    "",
    "Example:",
    "",
    "  ipybox login github",
  ].join("\n"),
  run,
};

async function run(args: readonly string[], io: CommandIo): Promise<number> {
  const parsed = parseCommandLine(login, args, { min: 1, max: 1 });
  const [name = ""] = parsed.positional;
  requireServerName(name);
  const workspace = await workspaceOf(parsed);
  const registry = await ServerRegistry.open({ workspace });
  const params = requireRemote(name, registry.get(name));
  let asked = false;
  const page = loginAt(io, parsed);
  await using connection = await connectMcp(name, params, {
    workspace,
    signal: io.signal,
    log: io.log,
    login: {
      ...page,
      anew: true,
      show: async (request) => {
        asked = true;
        await page.show(request);
      },
    },
  });
  // Some servers ask for a login only here.
  const tools = await connection.listTools({ signal: io.signal }).catch((error: unknown) => {
    throw error instanceof ToolCallError && error.cause instanceof McpConnectionError
      ? error.cause
      : error;
  });
  if (asked) io.out(`${name}: logged in, ${tools.length} tools\n`);
  else io.err(`${name} asks for no login`);
  return EXIT.ok;
}

/**
 * Makes sure that a server is one that can be logged in to.
 *
 * @throws {UsageError} It is not registered, or local.
 */
export function requireRemote(name: string, params: ServerParams | undefined): HttpServerParams {
  if (params === undefined) throw new UsageError(`No server "${name}" is registered`);
  if ("command" in params) throw new UsageError(`Server "${name}" is local: it has no login`);
  return params;
}
