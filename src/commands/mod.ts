/** The command line of ipybox: finds the command, runs it, turns errors into exit codes. */
import { isMisspelt } from "../base/nearest.ts";
import {
  CodeExecutionError,
  ConfigError,
  EnvironmentNotReadyError,
  ExecutionTimeoutError,
  GatewayStartError,
  KernelDiedError,
  KernelStartError,
  McpConnectionError,
  McpLoginRequiredError,
  OutcomeLostError,
  PackageInstallError,
  ToolCallError,
} from "../base/errors.ts";
import { during } from "../base/stages.ts";
import { isUnwritable, variablesOf } from "../files/user_folders.ts";
import {
  type Command,
  type CommandEntry,
  type CommandIo,
  EXIT,
  helpText,
  narrowed,
  type OptionSpec,
  parseCommandLine,
  StdoutClosedError,
  table,
  unknownOption,
  UsageError,
} from "./command.ts";
import { helpColumns, printable, printableEnd, printableTraceback } from "./terminal/columns.ts";
import { traceStartup, withoutTrace } from "./timings.ts";

const HELP: ReadonlySet<string> = new Set(["--help", "-h"]);

/** The commands in the order of the help, each with its summary and its module, imported when called. */
const MODULES: Readonly<Record<string, readonly [string, () => Promise<CommandModule>]>> = {
  demo: ["Try ipybox: register a server, run code, approve a tool call", () => import("./demo.ts")],
  setup: ["Install what ipybox needs on this machine", () => import("./setup.ts")],
  doctor: ["Report what works, what is missing and how to fix it", () => import("./doctor.ts")],
  register: ["Register an MCP server and generate its Python API", () => import("./register.ts")],
  servers: ["List the registered MCP servers", () => import("./servers.ts")],
  unregister: ["Remove an MCP server and its Python API", () => import("./unregister.ts")],
  trust: ["Show and accept new or changed settings of a workspace", () => import("./trust.ts")],
  login: ["Log in to a registered remote MCP server", () => import("./login.ts")],
  logout: ["Log out of a remote MCP server", () => import("./logout.ts")],
  tools: ["List or search the tools of the registered servers", () => import("./tools.ts")],
  show: ["Print the Python API of a tool", () => import("./show.ts")],
  run: ["Execute a code action", () => import("./run.ts")],
  attach: ["Continue with the code of a detached session", () => import("./attach.ts")],
  sessions: [
    "List, show or end sessions that outlive their program",
    () => import("./sessions.ts"),
  ],
  repl: ["Run code in an interactive session", () => import("./repl.ts")],
  install: ["Install Python packages for a workspace's code", () => import("./install.ts")],
  packages: ["List or remove a workspace's Python packages", () => import("./packages.ts")],
  where: ["Print where ipybox keeps its files about a workspace", () => import("./where.ts")],
  clean: ["Remove leftovers of old processes, sessions and workspaces", () => import("./clean.ts")],
  actions: ["List, show, check and run saved code actions", () => import("./actions/actions.ts")],
  mcp: ["Serve code execution to MCP clients", () => import("./mcp.ts")],
  approvals: [
    "Answer the approval requests of running MCP sessions",
    () => import("./approvals.ts"),
  ],
  policy: ["Write, test and explain the rules that decide on calls", () => import("./policy.ts")],
  audit: ["Show or verify the log of tool calls and decisions", () => import("./audit.ts")],
  completion: ["Print a script that completes ipybox's command line in your shell", async () => {
    const { completionOf } = await import("./completion.ts");
    return { command: completionOf(COMMANDS, OPTIONS) };
  }],
};

interface CommandModule {
  readonly command: Command;
}

/** All commands, in the order of the help. They are imported when called. */
export const COMMANDS: Readonly<Record<string, CommandEntry>> = Object.fromEntries(
  Object.entries(MODULES).map(([name, [summary, load]]) => [
    name,
    { summary, load: async () => (await load()).command },
  ]),
);

/** The options without a command. */
export const OPTIONS: Readonly<Record<string, OptionSpec>> = {
  help: { short: "h", help: "Show help for ipybox or a command" },
  version: { short: "V", help: "Show the version" },
};

export async function runCommandLine(
  args: readonly string[],
  io: CommandIo,
  version: string,
): Promise<number> {
  const own = withoutTrace(args);
  using _trace = own.length < args.length ? traceStartup(io) : undefined;
  const [name, ...rest] = own;
  try {
    if (name === undefined || name === "help" || name === "--help" || name === "-h") {
      const topic = name === "help" ? rest[0] : undefined;
      io.out(topic === undefined ? overview(helpColumns(io)) : await help(topic, io));
      return name === undefined ? EXIT.usage : EXIT.ok;
    }
    if (name === "--version" || name === "-V") {
      io.out(`ipybox ${version}\n`);
      return EXIT.ok;
    }
    const command = await during("load the command", find(name).load());
    if (asksForHelp(rest)) {
      const others = rest.filter((arg) => !HELP.has(arg));
      const about = await command.helpAbout?.(parseCommandLine(name, command, others));
      io.out(await help(name, io) + (about === undefined ? "" : `\n${about}`));
      return EXIT.ok;
    }
    return await command.run(parseCommandLine(name, command, rest), io);
  } catch (error) {
    if (io.signal.aborted) {
      io.err("ipybox: interrupted");
      return io.signal.reason.exitCode;
    }
    return report(error, name, io);
  }
}

function find(name: string): CommandEntry {
  const entry = isCommand(name) ? COMMANDS[name] : undefined;
  if (entry !== undefined) return entry;
  if (name.startsWith("-")) throw unknownOption(name, Object.keys(OPTIONS));
  const names = Object.keys(COMMANDS);
  const near = names.find((known) => known.startsWith(name.slice(0, 3))) ??
    names.find((known) => isMisspelt(name, [known]));
  const hint = near === undefined ? "" : `; did you mean "${near}"?`;
  throw new UsageError(`Unknown command "${name}"${hint}`);
}

function isCommand(name: string): boolean {
  return Object.hasOwn(COMMANDS, name);
}

async function help(name: string, io: CommandIo): Promise<string> {
  const { summary, load } = find(name);
  return helpText(name, summary, await load(), helpColumns(io));
}

function asksForHelp(args: readonly string[]): boolean {
  const own = args.includes("--") ? args.slice(0, args.indexOf("--")) : args;
  return own.some((arg) => HELP.has(arg));
}

function overview(columns: number): string {
  return narrowed([
    "ipybox runs Python code actions in a sandboxed IPython kernel, with MCP tools as",
    "typed Python functions and your approval before every tool call.",
    "",
    "Usage: ipybox COMMAND [OPTIONS]",
    "",
    "Commands:",
    ...table(
      Object.entries(COMMANDS).map(([name, { summary }]) => [name, summary] as const),
      columns,
    ),
    "",
    "Options:",
    ...table(
      Object.entries(OPTIONS).map(([name, { short, help }]) => [`-${short}, --${name}`, help]),
      columns,
    ),
    "",
    "Exit codes: 0 success, 1 the code action or the tool failed, 2 wrong usage,",
    "3 something is missing on this machine (run `ipybox doctor`), 130 interrupted.",
    "",
    "Start with `ipybox demo`, or:",
    "",
    "  ipybox register everything -- npx -y @modelcontextprotocol/server-everything",
    "  ipybox tools",
    "  ipybox run action.py",
    "",
  ], columns);
}

/** Prints an error to stderr and returns the exit code for it. */
function report(error: unknown, command: string | undefined, io: CommandIo): number {
  // Servers and executed code choose parts of messages, which must not control the terminal.
  const say = (text: string): void => io.err(printable(text));
  if (error instanceof UsageError) {
    const own = command !== undefined && isCommand(command) ? `${command} ` : "";
    say(`ipybox: ${error.message}\nTry \`ipybox ${own}--help\``);
    return EXIT.usage;
  }
  if (error instanceof StdoutClosedError) return EXIT.stdoutClosed;
  if (error instanceof EnvironmentNotReadyError) {
    say(`ipybox: ${error.message}\nTo fix it: ${error.fix}`);
    return EXIT.notReady;
  }
  if (error instanceof CodeExecutionError) {
    io.err(printableTraceback(error, io.color));
    return EXIT.failed;
  }
  if (error instanceof ExecutionTimeoutError || error instanceof KernelDiedError) {
    io.err(printableEnd(error));
    return EXIT.failed;
  }
  if (error instanceof Deno.errors.PermissionDenied) {
    // Its message names the file and the operation, as in: mkdir '/path'
    const tried = / \(os error \d+\): (.+)$/s.exec(error.message)?.[1] ?? error.message;
    say(`ipybox: Permission denied: ${tried}${unwritableFix(error)}`);
    return EXIT.usage;
  }
  const code = EXPECTED.find(([expected]) => error instanceof expected)?.[1] ??
    (isMachineTrouble(error) ? EXIT.failed : undefined);
  if (error instanceof Error && code !== undefined) {
    say(`ipybox: ${error.message}${unwritableFix(error)}`);
    return code;
  }
  // Anything else is a bug in ipybox, and a report of it needs the stack.
  say(`ipybox: unexpected error\n${error instanceof Error ? error.stack : String(error)}`);
  return EXIT.failed;
}

/** The fix for a folder that is not writable; `HOME` may be `/` in a container. */
function unwritableFix(error: Error): string {
  const isUnusable = isUnwritable(error) || error instanceof Deno.errors.NotADirectory;
  const path = isUnusable ? /'([^']+)'$/.exec(error.message)?.[1] : undefined;
  if (path === undefined) return "";
  if (path.includes("/.ipybox/")) {
    return "; choose another folder with --workspace, or let code only read this one: " +
      "ipybox mcp --project .";
  }
  const variables = variablesOf(path);
  return variables.length === 0
    ? ""
    : `; set ${variables.join(" or ")} to a folder that you can write to`;
}

/** Problems of the machine: full, read-only and broken disks, too many files. */
function isMachineTrouble(error: unknown): error is Error {
  if (!(error instanceof Error) || !("code" in error)) return false;
  return ["EDQUOT", "EFBIG", "EIO", "EMFILE", "ENFILE", "ENOSPC", "ENOTDIR", "EROFS"]
    .some((code) => error.code === code);
}

/** Errors whose message is sufficient, and their exit codes. */
const EXPECTED = [
  [ConfigError, EXIT.usage],
  [McpLoginRequiredError, EXIT.notReady],
  [GatewayStartError, EXIT.notReady],
  [KernelStartError, EXIT.notReady],
  [McpConnectionError, EXIT.failed],
  [OutcomeLostError, EXIT.failed],
  [PackageInstallError, EXIT.failed],
  [ToolCallError, EXIT.failed],
] as const;
