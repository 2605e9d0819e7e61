import { format } from "node:util";
import config from "../../deno.json" with { type: "json" };
import { settledWithin } from "../async/signals.ts";
import { McpServer } from "../mcp_server/mcp_server.ts";
import { type Command, type CommandIo, EXIT, parseCommandLine } from "./command.ts";
import {
  approvalOf,
  APPROVE,
  APPROVE_SHELL,
  kernelEnvOf,
  PYTHON,
  SANDBOX,
  sandboxOf,
  VERBOSE,
  WORKSPACE,
  workspaceOf,
} from "./shared.ts";

/** `ipybox mcp`: ipybox as an MCP server. */
export const mcp: Command = {
  name: "mcp",
  summary: "Serve code execution to MCP clients",
  usage: "[OPTIONS]",
  options: {
    approve: {
      ...APPROVE,
      help:
        "Tool calls and registrations: ask the client's user, allow or deny, or a policy file (default: ask, with the workspace's and your own policy)",
    },
    "approve-shell": APPROVE_SHELL,
    workspace: WORKSPACE,
    ...SANDBOX,
    python: PYTHON,
    verbose: VERBOSE,
  },
  notes: [
    "It speaks MCP on stdin and stdout, and ends with its stdin.",
    "",
    "Asking needs a client with elicitation, such as Claude Code, VS Code or Cursor;",
    "for others, tool calls are refused unless --approve allow is given.",
    "",
    "Variables KERNEL_ENV_X=v of the environment or of the workspace's .env reach the",
    "kernel as X.",
    "",
    "Example, for Claude Code:",
    "",
    "  claude mcp add ipybox -- ipybox mcp --workspace .",
  ].join("\n"),
  run,
};

/** How long a kernel may take to end after the client has gone. */
const FAREWELL_MS = 10_000;

async function run(args: readonly string[], io: CommandIo): Promise<number> {
  const parsed = parseCommandLine(mcp, args);
  const workspace = await workspaceOf(parsed);
  const { tools: approve, shell: approveShell, policy } = await approvalOf(parsed, workspace);
  const kernelEnv = await kernelEnvOf(workspace);
  silenceStdout(io);
  const server = McpServer.serveStdio({
    workspace,
    approve,
    approveShell,
    policy,
    kernelEnv,
    sandbox: sandboxOf(parsed),
    python: parsed.value("python"),
    version: config.version,
    log: parsed.has("verbose") ? io.verboseLog : io.log,
  });
  const interrupted = Promise.withResolvers<void>();
  io.signal.addEventListener("abort", () => interrupted.resolve(), { once: true });
  await Promise.race([server.closed, interrupted.promise]);
  if (!await settledWithin(server[Symbol.asyncDispose](), FAREWELL_MS)) {
    io.err("ipybox: the kernel did not end in time");
    return EXIT.failed;
  }
  return EXIT.ok;
}

/** Stdout is the protocol: one stray line of a library's would break the client. */
function silenceStdout(io: CommandIo): void {
  const toStderr = (...values: unknown[]) => io.err(format(...values));
  Object.assign(globalThis.console, { log: toStderr, info: toStderr, debug: toStderr });
}
