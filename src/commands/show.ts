import { join } from "node:path";
import { readPackage } from "../apigen/package.ts";
import { readHostileFile } from "../files/safe.ts";
import { isServerName } from "../mcp/params.ts";
import { type Command, type CommandIo, EXIT, type ParsedArgs, UsageError } from "./command.ts";
import { printable } from "./terminal/columns.ts";
import { mcptoolsOf, requireServerName, WORKSPACE, workspaceOf } from "./shared.ts";

export const show: Command = {
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
  const root = mcptoolsOf(await workspaceOf(parsed));
  const tools = await readPackage(root, server);
  if (tools === undefined) {
    throw new UsageError(`No Python API for server "${server}": see \`ipybox register --help\``);
  }
  const found = tools.find(({ module, name }) => module === tool || name === tool);
  if (found === undefined) {
    throw new UsageError(`Server "${server}" has no tool "${tool}": see \`ipybox tools\``);
  }
  const source = await readHostileFile(join(root, server, `${found.module}.py`));
  if (source === undefined) {
    throw new UsageError(`The Python API of "${name}" is missing: register the server again`);
  }
  io.out(io.stdoutIsTerminal ? printable(source) : source);
  return EXIT.ok;
}
