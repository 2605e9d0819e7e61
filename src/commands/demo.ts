import { join } from "node:path";
import { CodeExecutor } from "../executor/code_executor.ts";
import { HeldFolder } from "../files/private_folder.ts";
import type { Command, CommandIo, ParsedArgs } from "./command.ts";
import { runAction } from "./actions/code_action.ts";
import { KERNEL, kernelOptions, sandboxOf } from "./executor_options.ts";
import { setUp } from "./setup.ts";
import { WORKSPACE, workspaceOf } from "./shared.ts";
import { TerminalApprover } from "./terminal/approver.ts";
import { printable } from "./terminal/columns.ts";

export const demo: Command = {
  usage: "[OPTIONS]",
  options: {
    yes: { help: "Approve every tool call, and let the setup use passwordless sudo" },
    workspace: {
      ...WORKSPACE,
      help: "Where the demo runs and leaves its files (default: a temporary folder)",
    },
    ...KERNEL,
  },
  notes: [
    "Installs what is missing, registers the MCP server",
    "`@modelcontextprotocol/server-everything`, runs a code action that calls two of",
    "its tools in a loop, and asks before each call.",
    "",
    "Example:",
    "",
    "  ipybox demo --yes",
  ].join("\n"),
  run,
};

/** The demo's MCP server: the protocol's reference server, which needs no account. */
const SERVER = {
  command: "npx",
  args: ["-y", "@modelcontextprotocol/server-everything@2026.8.31", "stdio"],
};

const ACTION = `
from mcptools.everything import get_structured_content, get_sum

total = 0
cities = ["New York", "Chicago", "Los Angeles"]
for city in cities:
    # A typed result of the first tool ...
    weather = get_structured_content.run(location=city)
    fahrenheit = weather.temperature * 9 / 5 + 32
    print(f"{city}: {weather.conditions}, {weather.temperature} °C = {fahrenheit:.1f} °F")
    # ... goes into the second one; nothing of it passed through a model.
    answer = get_sum.run(a=total, b=fahrenheit)
    total = float(answer.split()[-1].rstrip("."))

print(f"Mean: {total / len(cities):.1f} °F")
`.trimStart();

async function run(parsed: ParsedArgs, io: CommandIo): Promise<number> {
  const yes = parsed.has("yes");
  await setUp({
    yes,
    python: parsed.value("python"),
    sandbox: sandboxOf(parsed) !== false,
    onProgress: (line) => io.err(printable(line)),
    signal: io.signal,
  });
  await using folder = parsed.value("workspace") === undefined
    ? await HeldFolder.create()
    : undefined;
  const workspace = folder ? join(folder.path, "workspace") : await workspaceOf(parsed);
  if (folder !== undefined) await Deno.mkdir(workspace);
  const approver = new TerminalApprover(io, "--yes");
  await using executor = await CodeExecutor.start({
    ...kernelOptions(parsed, io, workspace),
    signal: io.signal,
  });
  io.err(`Registering the MCP server "everything": ${[SERVER.command, ...SERVER.args].join(" ")}`);
  const tools = await executor.registerServer("everything", SERVER);
  const generated = tools.filter(({ module }) => module !== null).length;
  io.err(`Generated the Python API of ${generated} tools in ${join("mcptools", "everything")}`);
  io.err(`Running this code action:\n\n${ACTION.replaceAll(/^(?=.)/gm, "  ")}`);
  const code = await runAction(executor, ACTION, {
    io,
    decide: async (request) => {
      if (!yes) return await approver.decide(request);
      io.err(`Approved ${request}`);
      await request.accept();
    },
  });
  io.err('Next: "Use it" in README.md, with your own servers, code and agents');
  return code;
}
