import { readPackage } from "../apigen/package.ts";
import { ConfigError } from "../base/errors.ts";
import { hasLogin } from "../mcp/oauth/logout.ts";
import type { ServerParams } from "../mcp/params.ts";
import { launchText } from "../servers/fingerprint.ts";
import { ServerRegistry } from "../servers/registry.ts";
import { printable } from "./terminal/columns.ts";
import { type Command, type CommandIo, EXIT, type ParsedArgs, printTable } from "./command.ts";
import { mcptoolsOf, REGISTER_AGAIN, WORKSPACE, workspaceOf } from "./shared.ts";

export const command: Command = {
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

async function run(parsed: ParsedArgs, io: CommandIo): Promise<number> {
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
        if (!(error instanceof ConfigError)) throw error; // a damaged file must not hide the other servers
        rows.push([name, launchText(params)]);
        io.err(`ipybox: ${printable(error.message)}`);
      }
    }
    printTable(rows, io);
  }
  return EXIT.ok;
}

/** Facts about a server that need no start. */
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
