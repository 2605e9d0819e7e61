import { ConfigError, McpConnectionError, ToolCallError } from "../base/errors.ts";
import { ToolRunner } from "../calls/runner.ts";
import type { LoginOptions } from "../mcp/oauth/login.ts";
import type { HttpServerParams } from "../mcp/params.ts";
import { type Command, type CommandIo, EXIT, type ParsedArgs, UsageError } from "./command.ts";
import type { ServerRegistry } from "../servers/registry.ts";
import { requireServerName, unknownServer, WORKSPACE, workspaceOf } from "./shared.ts";
import { askAtTerminal } from "./terminal/answerer.ts";
import { printable } from "./terminal/columns.ts";

export function loginAt(io: CommandIo): LoginOptions {
  return {
    show: ({ serverName, serverHost, url }) => {
      if (serverHost !== url.host) {
        io.err(
          `What you allow at ${url.host} is given to ${serverHost}, the server ${serverName}.`,
        );
      }
      io.err(`To log in to ${serverName}, open this page of ${url.host} in a browser here:`);
      io.err(`\n  ${printable(url.href)}\n`);
      io.err("Waiting for the login in the browser. Press Ctrl-C to cancel.");
    },
  };
}

export const command: Command = {
  usage: "NAME [OPTIONS]",
  positional: { min: 1, max: 1 },
  options: { workspace: WORKSPACE },
  notes: [
    "Prints the login page's address: open it in a browser on this machine. `ipybox",
    "register` logs in too; use this command after a login has expired, or if it",
    "grants too little.",
    "",
    "Example:",
    "",
    "  ipybox login github",
  ].join("\n"),
  run,
};

async function run(parsed: ParsedArgs, io: CommandIo): Promise<number> {
  const [name = ""] = parsed.positional;
  requireServerName(name);
  const workspace = await workspaceOf(parsed);
  let asked = false;
  const page = loginAt(io);
  // As with calls by code, a server from a repository needs approval before it is contacted.
  await using runner = await ToolRunner.start({
    workspace,
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
  requireRemote(name, runner.registry);
  const { decide } = askAtTerminal(io, "`ipybox trust --yes` accepts the server");
  using _approver = runner.channel.attach(decide);
  // Some servers require the login only here.
  const tools = await runner.listTools(name, io.signal).catch((error: unknown) => {
    const cause = error instanceof ToolCallError ? error.cause : undefined;
    throw cause instanceof McpConnectionError || cause instanceof ConfigError ? cause : error;
  });
  if (asked) io.out(`${name}: logged in, ${tools.length} tools\n`);
  else io.err(`${name} does not require a login`);
  return EXIT.ok;
}

/** Ensures that a server is registered and can have a login. */
export function requireRemote(name: string, registry: ServerRegistry): HttpServerParams {
  const params = registry.get(name);
  if (params === undefined) throw unknownServer(name, registry.names);
  if ("command" in params) throw new UsageError(`Server "${name}" is local and has no login`);
  return params;
}
