import { join } from "node:path";
import { CodeExecutionError } from "../base/errors.ts";
import { CodeExecutor } from "../executor/code_executor.ts";
import { HeldFolder } from "../files/private_folder.ts";
import type { Command, CommandIo, ParsedArgs } from "./command.ts";
import { runAction } from "./actions/code_action.ts";
import { KERNEL, kernelOptions, sandboxOf } from "./executor_options.ts";
import { setUp } from "./setup.ts";
import { WORKSPACE, workspaceOf } from "./shared.ts";
import { askAtTerminal } from "./terminal/answerer.ts";
import { printable, printableOutput } from "./terminal/columns.ts";

export const command: Command = {
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
    "its tools in a loop, and asks before each call. Then it runs a wrong call and an",
    "attack, both of which fail.",
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
    print(f"{city}: {weather.conditions}, {weather.temperature} °F, {weather.humidity} % humidity")
    # ... goes into the second one; nothing of it passed through a model.
    answer = get_sum.run(a=total, b=weather.temperature)
    total = float(answer.split()[-1].rstrip("."))

print(f"Mean: {total / len(cities):.0f} °F")
`.trimStart();

const WRONG_CALL = `
weather = get_structured_content.run(location="Paris")
`.trimStart();

/** Tries to read a file outside the workspace, and to send it away. */
const attackOn = (path: string) =>
  `
import urllib.request

for place in [${JSON.stringify(path)}, "https://example.com"]:
    try:
        print(urllib.request.urlopen(place, timeout=10) if ":" in place else open(place).read())
    except OSError as error:
        print(f"{place}: {type(error).__name__}")
`.trimStart();

const NEXT = `Next, install the command from a checkout, unless you have it:

  npx -y deno@2.9.6 task package npm
  npm install -g ./dist/ipybox.tgz

Then use it at the terminal, and in Claude Code:

  mkdir -p ~/ipybox-work && ipybox repl --workspace ~/ipybox-work
  claude mcp add ipybox -- ipybox mcp --project .

docs/start.md in the checkout says how to register your own MCP servers.`;

async function run(parsed: ParsedArgs, io: CommandIo): Promise<number> {
  const yes = parsed.has("yes");
  await setUp({
    yes,
    python: parsed.value("python"),
    sandbox: sandboxOf(parsed) !== false,
    onProgress: (line) => io.err(printable(line)),
    signal: io.signal,
  });
  await using folder = await HeldFolder.create();
  const secret = join(folder.path, "secret.txt");
  await Deno.writeTextFile(secret, "a file of yours");
  const isOwn = parsed.value("workspace") !== undefined;
  const workspace = isOwn ? await workspaceOf(parsed) : join(folder.path, "workspace");
  if (!isOwn) await Deno.mkdir(workspace);
  const { decide } = askAtTerminal(io, "--yes allows calls");
  await using executor = await CodeExecutor.start({
    ...kernelOptions(parsed, io, workspace),
    signal: io.signal,
  });
  io.err(`Registering the MCP server "everything": ${[SERVER.command, ...SERVER.args].join(" ")}`);
  const tools = await executor.registerServer("everything", SERVER);
  const generated = tools.filter(({ module }) => module !== null).length;
  io.err(`Generated the Python API of ${generated} tools in ${join("mcptools", "everything")}`);
  io.err(`Running this code action:\n\n${indented(ACTION)}`);
  const code = await runAction(executor, ACTION, {
    io,
    decide: async (request) => {
      if (!yes) return await decide(request);
      io.err(`Approved ${request}`);
      await request.accept();
    },
  });
  io.err(`\nA wrong argument, which is found before anything runs:\n\n${indented(WRONG_CALL)}`);
  io.err(indented(await outputOf(executor, WRONG_CALL)));
  if (sandboxOf(parsed) !== false) {
    const attack = attackOn(secret);
    io.err(`An attack, which the sandbox stops:\n\n${indented(attack)}`);
    io.err(indented(await outputOf(executor, attack)));
  }
  io.err(NEXT);
  return code;
}

/** The code's output, or the reason why it failed. */
async function outputOf(executor: CodeExecutor, code: string): Promise<string> {
  try {
    return printableOutput(`${(await executor.execute(code)).text ?? ""}\n`);
  } catch (error) {
    if (error instanceof CodeExecutionError) return printableOutput(`${error.traceback}\n`);
    throw error;
  }
}

function indented(text: string): string {
  return text.replaceAll(/^(?=.)/gm, "  ");
}
