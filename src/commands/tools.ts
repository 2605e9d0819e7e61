import { firstSentence } from "../apigen/package.ts";
import { actionTools } from "../apigen/saved_actions.ts";
import { ToolIndex } from "../apigen/search.ts";
import { visible } from "../approval/call_text.ts";
import { isMisspelt } from "../base/nearest.ts";
import { ServerRegistry } from "../servers/registry.ts";
import {
  type Command,
  type CommandIo,
  EXIT,
  type ParsedArgs,
  printTable,
  UsageError,
} from "./command.ts";
import { APPROVE } from "./executor_options.ts";
import { learn } from "./learn.ts";
import {
  mcptoolsOf,
  REGISTER_AGAIN,
  requireServerName,
  unknownServer,
  WORKSPACE,
  workspaceOf,
} from "./shared.ts";
import { printable } from "./terminal/columns.ts";

export const command: Command = {
  usage: "[QUERY…] [OPTIONS]\n--learn SERVER [OPTIONS]",
  positional: { max: Infinity },
  options: {
    server: { value: "NAME", help: "Only the tools of this server" },
    json: { help: "Print the tools as JSON" },
    learn: {
      value: "SERVER",
      help: "Call read-only tools with the server's examples, to learn what they return",
    },
    approve: APPROVE,
    workspace: WORKSPACE,
  },
  notes: [
    "Lists first the tools that match most words of the query in their names,",
    "descriptions and parameters. Without a query, lists all tools. Saved actions",
    "are among them as gentools.CATEGORY.NAME, but not with --server or --json.",
    "",
    "--learn calls read-only tools that have no output schema, if they need no",
    "arguments or the server gives examples. Each call needs approval.",
    "",
    "Examples:",
    "",
    "  ipybox tools search repositories --server github",
    "  ipybox tools --learn github",
  ].join("\n"),
  run,
};

async function run(parsed: ParsedArgs, io: CommandIo): Promise<number> {
  const learnt = parsed.value("learn");
  const workspace = await workspaceOf(parsed);
  if (learnt !== undefined) {
    if (parsed.positional.length > 0) throw new UsageError("Option --learn takes no query");
    requireServerName(learnt);
    return await learn(learnt, { workspace, parsed, io });
  }
  const only = parsed.value("server");
  if (only !== undefined) requireServerName(only);
  const { names: registered } = await ServerRegistry.open({ workspace });
  const names = only === undefined ? registered : [only];
  const index = new ToolIndex(mcptoolsOf(workspace));
  const query = parsed.positional.join(" ");
  const saved = only === undefined && !parsed.has("json") ? await actionTools(workspace) : [];
  const { tools: found, missing, damaged } = await index.search(query, names, saved);
  for (const server of missing) {
    if (!registered.includes(server)) throw unknownServer(server, registered);
    io.err(`No Python API for server "${server}": ${REGISTER_AGAIN}`);
  }
  for (const message of damaged) io.err(message);
  const code = missing.length === 0 || only === undefined ? EXIT.ok : EXIT.failed;
  if (parsed.has("json")) {
    const rows = found.map(({ server, name, module, description }) => ({
      server,
      name,
      module,
      description,
    }));
    io.out(JSON.stringify(rows, null, 2) + "\n");
    return code;
  }
  if (found.length > 0) {
    const rows = found.map(({ server, module, description }): [string, string] => [
      `${server}.${module}`,
      visible(firstSentence(description)),
    ]);
    printTable(rows, io);
  } else if (names.length === 0) {
    io.err("No servers are registered: see `ipybox register --help`");
  } else {
    const { tools: known } = await index.search("", names);
    const words = known.flatMap(({ server, module }) => [server, module, ...module.split("_")]);
    const meant = parsed.positional.flatMap((part) => part.split(/\s+/))
      .map((word) => words.find((known) => isMisspelt(word, [known])) ?? word).join(" ");
    io.err(`No tools found${meant === query ? "" : `; did you mean "${printable(meant)}"?`}`);
  }
  return code;
}
