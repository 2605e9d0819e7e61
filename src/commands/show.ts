import { join } from "node:path";
import { readPackage } from "../apigen/package.ts";
import { nearestNames } from "../base/nearest.ts";
import { readHostileFile } from "../files/safe.ts";
import { isServerName } from "../mcp/params.ts";
import { ServerRegistry } from "../servers/registry.ts";
import { type Command, type CommandIo, EXIT, type ParsedArgs, UsageError } from "./command.ts";
import { printable } from "./terminal/columns.ts";
import { mcptoolsOf, requireServerName, WORKSPACE, workspaceOf } from "./shared.ts";

export const command: Command = {
  usage: "SERVER.TOOL [OPTIONS]",
  positional: { min: 1, max: 1 },
  options: { workspace: WORKSPACE },
  notes: "Example:\n\n  ipybox show github.search_repositories",
  run,
};

async function run(parsed: ParsedArgs, io: CommandIo): Promise<number> {
  const [name = ""] = parsed.positional;
  const dot = name.indexOf(".");
  if (dot === -1) {
    const known = isServerName(name) ? `; see \`ipybox tools --server ${name}\`` : "";
    throw new UsageError(`Specify a tool as SERVER.TOOL: received "${name}"${known}`);
  }
  const server = name.slice(0, dot);
  const tool = name.slice(dot + 1);
  requireServerName(server);
  const workspace = await workspaceOf(parsed);
  const root = mcptoolsOf(workspace);
  const tools = await readPackage(root, server);
  if (tools === undefined) {
    const { names } = await ServerRegistry.open({ workspace });
    const [near] = nearestNames(server, names, 1);
    const help = near === undefined
      ? "see `ipybox register --help`"
      : `did you mean "${near}.${tool}"?`;
    throw new UsageError(`No Python API for server "${server}": ${help}`);
  }
  const found = tools.find(({ module, name }) => module === tool || name === tool);
  if (found === undefined) {
    const [near] = nearestNames(tool, tools.map(({ module }) => module), 1);
    const help = near === undefined ? "see `ipybox tools`" : `did you mean "${server}.${near}"?`;
    throw new UsageError(`Server "${server}" has no tool "${tool}": ${help}`);
  }
  const source = await readHostileFile(join(root, server, `${found.module}.py`));
  if (source === undefined) {
    throw new UsageError(`The Python API of "${name}" is missing: register the server again`);
  }
  io.out(io.stdoutIsTerminal ? printable(source) : source);
  return EXIT.ok;
}
