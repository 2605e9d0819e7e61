import { launchText } from "../servers/facets.ts";
import { ServerRegistry } from "../servers/registry.ts";
import { listColumns } from "./terminal/columns.ts";
import { type Command, type CommandIo, EXIT, parseCommandLine, table } from "./command.ts";
import { WORKSPACE, workspaceOf } from "./shared.ts";

/** `ipybox servers`: lists the registered servers. */
export const servers: Command = {
  name: "servers",
  summary: "List the registered MCP servers",
  usage: "[OPTIONS]",
  options: {
    json: { help: "Print the servers as JSON, in the usual mcpServers format" },
    workspace: WORKSPACE,
  },
  notes: "Example:\n\n  ipybox servers --json",
  run,
};

async function run(args: readonly string[], io: CommandIo): Promise<number> {
  const parsed = parseCommandLine(servers, args);
  const registry = await ServerRegistry.open({ workspace: await workspaceOf(parsed) });
  const { entries } = registry;
  if (parsed.has("json")) {
    io.out(JSON.stringify({ mcpServers: Object.fromEntries(entries) }, null, 2) + "\n");
    return EXIT.ok;
  }
  if (entries.length === 0) io.err("No servers are registered: see `ipybox register --help`");
  else {
    const rows = entries.map(([name, params]): [string, string] => [
      name,
      launchText(params),
    ]);
    io.out(table(rows, listColumns(io)).join("\n") + "\n");
  }
  return EXIT.ok;
}
