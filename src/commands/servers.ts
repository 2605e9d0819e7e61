import { readPackage } from "../apigen/package.ts";
import { ConfigError } from "../base/errors.ts";
import { hasLogin } from "../mcp/oauth/logout.ts";
import type { ServerParams } from "../mcp/params.ts";
import { launchText } from "../servers/facets.ts";
import { ServerRegistry } from "../servers/registry.ts";
import { listColumns, printable } from "./terminal/columns.ts";
import { type Command, type CommandIo, EXIT, parseCommandLine, table } from "./command.ts";
import { mcptoolsOf, REGISTER_AGAIN, WORKSPACE, workspaceOf } from "./shared.ts";

/** `ipybox servers`: lists the registered servers. */
export const servers: Command = {
  name: "servers",
  summary: "List the registered MCP servers",
  usage: "[OPTIONS]",
  options: {
    json: { help: "Print the servers as JSON, in the usual mcpServers format" },
    workspace: WORKSPACE,
  },
  notes: [
    "Shows how each server starts or is reached, the number of its generated tools,",
    "and whether a login to it is stored. Nothing is started or contacted.",
    "",
    "Example:",
    "",
    "  ipybox servers --json",
  ].join("\n"),
  run,
};

async function run(args: readonly string[], io: CommandIo): Promise<number> {
  const parsed = parseCommandLine(servers, args);
  const workspace = await workspaceOf(parsed);
  const registry = await ServerRegistry.open({ workspace });
  const { entries } = registry;
  if (parsed.has("json")) {
    io.out(JSON.stringify({ mcpServers: Object.fromEntries(entries) }, null, 2) + "\n");
    return EXIT.ok;
  }
  if (entries.length === 0) io.err("No servers are registered: see `ipybox register --help`");
  else {
    const rows: [string, string][] = [];
    for (const [name, params] of entries) {
      try {
        const states = await statesOf(name, params, workspace);
        rows.push([name, `${launchText(params)} (${states.join(", ")})`]);
      } catch (error) {
        if (!(error instanceof ConfigError)) throw error; // a damaged file must not hide the others
        rows.push([name, launchText(params)]);
        io.err(`ipybox: ${printable(error.message)}`);
      }
    }
    io.out(table(rows, listColumns(io)).join("\n") + "\n");
  }
  return EXIT.ok;
}

/** What this machine knows of a server without starting it. */
async function statesOf(name: string, params: ServerParams, workspace: string): Promise<string[]> {
  const tools = await readPackage(mcptoolsOf(workspace), name);
  const states = tools === undefined
    ? [`no Python API: ${REGISTER_AGAIN}`]
    : [tools.length === 1 ? "1 tool" : `${tools.length} tools`];
  if ("command" in params) {
    if (params.sandbox !== undefined && params.sandbox !== false) states.push("in a sandbox");
  } else if (await hasLogin(name, params, { workspace })) states.push("logged in");
  else if (params.headers === undefined && params.oauth !== false) states.push("no login stored");
  return states;
}
