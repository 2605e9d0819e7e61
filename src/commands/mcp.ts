import { resolve } from "node:path";
import { format } from "node:util";
import config from "../../deno.json" with { type: "json" };
import { silentLogger } from "../base/log.ts";
import { settledWithin } from "../base/signals.ts";
import { DEFAULT_SESSIONS } from "../mcp_server/http/bearer_tokens.ts";
import { McpServer } from "../mcp_server/mcp_server.ts";
import type { McpHttpServerOptions } from "../mcp_server/option_keys.ts";
import type { McpServerOptions, SessionOptions } from "../mcp_server/session.ts";
import type { StdioServer } from "../mcp_server/stdio.ts";
import {
  type Command,
  type CommandIo,
  EXIT,
  type OptionSpec,
  type ParsedArgs,
  UsageError,
} from "./command.ts";
import {
  APPROVE,
  APPROVE_SHELL,
  kernelEnvOf,
  kernelOptions,
  PLACEMENT,
  placementOf,
  SESSION,
  sessionNameOf,
  tokenPlacement,
} from "./executor_options.ts";
import { ifPresent } from "../files/safe.ts";
import { isInside } from "../process/trusted_path.ts";
import { fitProject, projectWorkspace } from "../sandbox/workspace.ts";
import type { SandboxOptions } from "../sandbox/sandbox.ts";
import { workspaceSettings } from "./mcp_settings.ts";
import { workspaceOf } from "./shared.ts";
import { readTokenFile } from "./token_file.ts";

/** Options that need `--http`. */
const HTTP_ONLY: Readonly<Record<string, OptionSpec>> = {
  host: { value: "HOST", help: "With --http, the address to listen on (default: 127.0.0.1)" },
  "allow-host": {
    value: "NAME",
    many: true,
    help: "With --http, another host name that clients may use",
  },
  "token-file": {
    value: "FILE",
    help:
      "With --http, the clients' bearer tokens, one per line, after which sessions=N and placement=WHERE can follow (default: one is generated)",
  },
  "no-token": { help: "With --http on 127.0.0.1: no token; any local program can connect" },
  "max-sessions": {
    value: "N",
    help: "With --http, concurrent sessions, shared equally among tokens that have no sessions=N " +
      `(default: ${DEFAULT_SESSIONS})`,
  },
  pool: {
    value: "N",
    help: "With --http, sessions to keep ready for new clients, 70 MB each (default: 0)",
  },
  "allow-registrations": {
    help:
      "With --http, let clients register servers, which run outside the sandbox with your access",
  },
  "session-idle": {
    value: "SECONDS",
    help: "With --http, close a session after this idle time (default: 3600)",
  },
  durable: {
    help:
      "With --http, sessions outlive the server: clients find them again when it is restarted; needs --token-file or --no-token",
  },
};

export const command: Command = {
  usage: "[OPTIONS]",
  options: {
    approve: {
      ...APPROVE,
      help:
        "Tool calls and registrations: ask the client's user, allow or deny, reads (allow what only reads, as its server claims), or a policy file (default: ask, with the workspace's and your own policy)",
    },
    "approve-shell": APPROVE_SHELL,
    page: { help: "Ask on a local web page, and print its one-time link to stderr" },
    session: {
      value: "NAME",
      help:
        "Continue the session of this name, or begin it; a restarted client finds its variables for a day",
    },
    http: { value: "PORT", help: "Serve over HTTP on this port instead (0: any free port)" },
    ...HTTP_ONLY,
    ...SESSION,
    placement: PLACEMENT,
    project: {
      value: "DIR",
      help:
        "A folder that code can read, except its secrets, but not write; unless you name a workspace, a separate one outside the folder is used",
    },
  },
  notes: [
    "Speaks MCP on stdin and stdout, and exits when stdin closes. With --http, serves",
    "http://127.0.0.1:PORT/mcp to clients that send the bearer token, which it",
    "prints. Each HTTP session has its own kernel, and its own empty folder in",
    "~/.local/state/ipybox.",
    "",
    "Clients with elicitation, such as Claude Code, VS Code or Cursor, ask their",
    "user. For other clients, or with --page, ipybox asks on a local web page. Its",
    "link and code go only to stderr, so that the model cannot open the page.",
    "",
    "With --project, code cannot plant files in the project that a client or editor",
    "would obey, such as .mcp.json, CLAUDE.md or .vscode. It writes to a workspace in",
    "~/.local/share/ipybox/workspaces.",
    "",
    "To set X in the kernel, set KERNEL_ENV_X in the environment or the workspace's",
    ".env.",
    "",
    "Example, for Claude Code:",
    "",
    "  claude mcp add ipybox -- ipybox mcp --project .",
    "",
    "Example over HTTP:",
    "",
    "  ipybox mcp --http 8000 --token-file ~/.config/ipybox/tokens",
  ].join("\n"),
  run,
};

/** The time limit for a kernel to end after the client has disconnected. */
const FAREWELL_MS = 10_000;

async function run(parsed: ParsedArgs, io: CommandIo): Promise<number> {
  const project = await projectOf(parsed);
  const workspace = project === undefined || parsed.has("workspace")
    ? await workspaceOf(parsed)
    : await projectWorkspace(project);
  const overHttp = parsed.has("http");
  const settings = workspaceSettings(parsed, workspace, io);
  // On stdio, the session asks its client's user first, and then warns about what does not count.
  const approval = await settings.approval(overHttp ? io.log : silentLogger);
  const kernel = kernelOptions(parsed, io, workspace);
  const name = await sessionNameOf(parsed);
  if (name !== undefined) parsed.refuseBeside("session", ["http"], ": use --durable");
  const options: Omit<McpServerOptions, "durable"> = {
    ...kernel,
    placement: await placementOf(parsed, workspace),
    sandbox: project === undefined ? kernel.sandbox : withProject(kernel.sandbox, project),
    ...approval,
    page: parsed.has("page"),
    version: config.version,
  };
  const http = await httpOf(parsed, workspace);
  await checkTokenFile(parsed, project);
  const server = http === undefined
    ? await serveStdio(
      { ...options, settings, durable: name === undefined ? undefined : { name } },
      io,
    )
    : await serveHttp(
      { ...options, ...http, kernelEnv: await kernelEnvOf(workspace, io.log) },
      io,
    );
  const interrupted = Promise.withResolvers<void>();
  io.signal.addEventListener("abort", () => interrupted.resolve(), { once: true });
  await Promise.race([server.closed, interrupted.promise]);
  if (!await settledWithin(server[Symbol.asyncDispose](), FAREWELL_MS)) {
    io.err("ipybox: the kernel did not stop in time");
    return EXIT.failed;
  }
  return EXIT.ok;
}

/** The project that the command line names, as an absolute path. */
async function projectOf(parsed: ParsedArgs): Promise<string | undefined> {
  const project = parsed.value("project");
  if (project === undefined) return undefined;
  const info = await ifPresent(Deno.stat(project));
  if (info?.isDirectory) return await fitProject(project); // over HTTP, sessions start later
  throw new UsageError(`Project "${project}" is not a directory`);
}

function withProject(sandbox: McpServerOptions["sandbox"], project: string): SandboxOptions {
  if (sandbox !== false) return { ...(typeof sandbox === "object" ? sandbox : {}), project };
  throw new UsageError("Option --project needs the sandbox: remove --no-sandbox");
}

async function serveStdio(options: SessionOptions, io: CommandIo): Promise<StdioServer> {
  silenceStdout(io);
  if (io.interactive) {
    io.err(
      "Waiting for an MCP client on stdin (clients normally start this command). Press Ctrl-C to stop.",
    );
  }
  const { StdioServer } = await import("../mcp_server/stdio.ts");
  return new StdioServer(options);
}

async function serveHttp(options: McpHttpServerOptions, io: CommandIo): Promise<McpServer> {
  try {
    const server = await McpServer.serveHttp(options);
    if (server.http !== undefined) {
      io.err(`Serving MCP at ${server.http.url}`);
      if (server.http.token !== undefined) io.err(`Bearer token: ${server.http.token}`);
    }
    return server;
  } catch (cause) {
    if (cause instanceof Deno.errors.AddrInUse) {
      throw new UsageError(`Port ${options.port} is in use: choose another one`, { cause });
    }
    if (cause instanceof Deno.errors.AddrNotAvailable || cause instanceof TypeError) {
      throw new UsageError(cause.message, { cause });
    }
    throw cause;
  }
}

async function httpOf(
  parsed: ParsedArgs,
  workspace: string,
): Promise<McpHttpServerOptions | undefined> {
  const port = parsed.value("http");
  if (port === undefined) {
    const lost = Object.keys(HTTP_ONLY).find((name) => parsed.has(name));
    if (lost !== undefined) throw new UsageError(`Option --${lost} needs --http`);
    return undefined;
  }
  if (!/^\d{1,5}$/.test(port) || Number(port) > 65_535) {
    throw new UsageError(`Option --http takes a port from 0 to 65535: received "${port}"`);
  }
  const hostname = parsed.value("host") ?? "127.0.0.1";
  const durable = parsed.has("durable");
  if (durable && !parsed.has("token-file") && !parsed.has("no-token")) {
    throw new UsageError(
      "Option --durable needs --token-file or --no-token: sessions belong to a token, and a " +
        "restarted server would generate another one",
    );
  }
  return {
    port: Number(port),
    hostname,
    allowedHosts: parsed.values("allow-host"),
    tokens: await tokensOf(parsed, workspace, hostname),
    maxSessions: parsed.positiveNumber("max-sessions"),
    allowRegistrations: parsed.has("allow-registrations"),
    durable,
    sessionIdleMs: parsed.milliseconds("session-idle"),
    pool: poolOf(parsed),
  };
}

function poolOf(parsed: ParsedArgs): McpHttpServerOptions["pool"] {
  const size = parsed.value("pool");
  if (size === undefined || /^\d{1,4}$/.test(size)) return { size: Number(size ?? 0) };
  throw new UsageError(`Option --pool needs a whole number: received "${size}"`);
}

async function tokensOf(
  parsed: ParsedArgs,
  workspace: string,
  hostname: string,
): Promise<McpHttpServerOptions["tokens"]> {
  if (!parsed.has("no-token")) {
    const file = parsed.value("token-file");
    if (file === undefined) return undefined;
    return await readTokenFile(
      file,
      async (where, folder) => await tokenPlacement(parsed, where, { workspace, folder }),
    );
  }
  parsed.refuseBeside("no-token", ["token-file"]);
  if (!/^(127\.\d+\.\d+\.\d+|localhost|::1)$/.test(hostname)) {
    throw new UsageError(
      "Option --no-token works only on a loopback address: otherwise others could execute code",
    );
  }
  return false;
}

/** Refuses a token file that code can read: it could impersonate other clients. */
async function checkTokenFile(parsed: ParsedArgs, project: string | undefined): Promise<void> {
  const file = parsed.value("token-file");
  if (file === undefined || project === undefined) return;
  const paths = [resolve(file), await Deno.realPath(file)];
  if (!paths.some((path) => isInside(path, project))) return;
  throw new UsageError(
    `Option --token-file: ${file} is in the project, which --project shows to code; move it to ` +
      "another folder",
  );
}

/** Stdout carries the protocol: one stray line of a library would break the client. */
function silenceStdout(io: CommandIo): void {
  const toStderr = (...values: unknown[]) => io.err(format(...values));
  Object.assign(globalThis.console, { log: toStderr, info: toStderr, debug: toStderr });
}
