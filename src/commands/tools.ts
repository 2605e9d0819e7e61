import { firstSentence } from "../apigen/generate.ts";
import { ServerRegistry } from "../tool_server/server_registry.ts";
import {
  type Command,
  type CommandIo,
  EXIT,
  parseCommandLine,
  table,
  UsageError,
} from "./command.ts";
import { type PackageTool, readPackage } from "./generated_package.ts";
import { printable } from "./printable.ts";
import { mcptoolsOf, requireServerName, WORKSPACE, workspaceOf } from "./shared.ts";

/** `ipybox tools`: lists or searches the tools of the registered servers. */
export const tools: Command = {
  name: "tools",
  summary: "List or search the tools of the registered servers",
  usage: "[QUERY] [OPTIONS]",
  options: {
    server: { value: "NAME", help: "Only the tools of this server" },
    json: { help: "Print the tools as JSON" },
    workspace: WORKSPACE,
  },
  notes: [
    "A tool is found when its name or description has every word of the query.",
    "",
    "Example:",
    "",
    '  ipybox tools "search repositories" --server github',
  ].join("\n"),
  run,
};

interface Found extends PackageTool {
  readonly server: string;
}

async function run(args: readonly string[], io: CommandIo): Promise<number> {
  const parsed = parseCommandLine(tools, args, { max: 1 });
  const workspace = await workspaceOf(parsed);
  const only = parsed.value("server");
  if (only !== undefined) requireServerName(only);
  const { names: registered } = await ServerRegistry.open({ workspace });
  const names = only === undefined ? registered : [only];
  const words = (parsed.positional[0] ?? "").toLowerCase().split(/\s+/);
  const found: Found[] = [];
  let complete = true;
  for (const server of names) {
    const all = await readPackage(mcptoolsOf(workspace), server);
    if (all === undefined && !registered.includes(server)) throw unknownServer(server, registered);
    if (all === undefined) io.err(`No Python API of server "${server}": register it again`);
    complete &&= all !== undefined;
    for (const tool of all ?? []) {
      const text = `${server}.${tool.module} ${tool.name} ${tool.description}`.toLowerCase();
      if (words.every((word) => text.includes(word))) found.push({ server, ...tool });
    }
  }
  if (parsed.has("json")) io.out(JSON.stringify(found, null, 2) + "\n");
  else if (found.length === 0) io.err("No tools found");
  else {
    const rows = found.map(({ server, module, description }): [string, string] => [
      `${server}.${module}`,
      printable(firstSentence(description)),
    ]);
    io.out(table(rows).join("\n") + "\n");
  }
  return complete || only === undefined ? EXIT.ok : EXIT.failed;
}

function unknownServer(name: string, registered: readonly string[]): UsageError {
  const known = registered.length === 0 ? "none is" : `there are ${registered.join(", ")}`;
  return new UsageError(`No server "${name}" is registered: ${known}`);
}
