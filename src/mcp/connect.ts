import { basename, isAbsolute, resolve } from "node:path";
import { ConfigError, McpConnectionError, type ProcessEvidence } from "../base/errors.ts";
import { limitedLogger, type Logger, silentLogger } from "../base/log.ts";
import { mayRead } from "../base/permission.ts";
import { Deadline } from "../base/deadline.ts";
import { abortable, anySignal, LONGEST_TIMER_MS } from "../base/signals.ts";
import type { ServersOptions } from "../executor/options.ts";
import { isInside } from "../process/trusted_path.ts";
import { requireSandboxPrerequisites } from "../sandbox/prerequisites.ts";
import type { SettingsFile } from "../sandbox/servers.ts";
import { limitBacklog, makeClient } from "./client.ts";
import { McpConnection } from "./connection.ts";
import { exactFetch } from "./exact_fetch.ts";
import type { ServerHooks } from "./hooks.ts";
import { launchStdio } from "./launch.ts";
import { OAuthSession } from "./oauth/session.ts";
import {
  checkServerName,
  fillVariables,
  type HttpServerParams,
  type McpProtocol,
  requireOwnCommand,
  type ServerParams,
  SlowStartError,
  type StdioServerParams,
  variableLookup,
} from "./params.ts";
import { messageOf } from "./results.ts";
import { LONGER_HINT } from "./start_errors.ts";
import {
  type Client,
  ProtocolError,
  SdkError,
  SdkErrorCode,
  SdkHttpError,
  SSEClientTransport,
  StreamableHTTPClientTransport,
  type Transport,
} from "./sdk.ts";
import { StdioTransport } from "./stdio.ts";

/** Options for starting and connecting to MCP servers. */
export interface ConnectOptions
  extends Pick<ServersOptions, "connectTimeoutMs" | "variables" | "login"> {
  /**
   * The folder in which executed code works. Its `.ipybox/mcp.json` registers servers, its `.env`
   * provides values of `${VAR}` after the environment, and `${workspaceFolder}` stands for its
   * path.
   *
   * @default {undefined} no servers other than those passed in
   */
  workspace?: string;
  /**
   * Receives log messages.
   *
   * @default warnings and errors go to stderr; `generateMcpSources()` logs nothing
   */
  log?: Logger;
}

/** Options of {@linkcode connectMcp} for the servers of one session. */
export interface SessionConnectOptions extends ConnectOptions {
  /** The settings file of its sandbox as it was accepted; by default it is read now. */
  settings?: SettingsFile | undefined;
  /** The folder of all logins, instead of `$XDG_STATE_HOME/ipybox/logins`. */
  loginsFolder?: string;
  /** How to react to the server's unprompted messages. */
  hooks?: ServerHooks;
  /** Cancels the connection attempt. */
  signal?: AbortSignal;
}

/** Starts or reaches an MCP server. */
export async function connectMcp(
  serverName: string,
  params: ServerParams,
  options: SessionConnectOptions = {},
): Promise<McpConnection> {
  checkServerName(serverName);
  const { workspace } = options;
  const lookup = options.variables ?? await variableLookup(workspace, { log: options.log });
  if (options.variables === undefined) {
    await requireOwnCommand(serverName, params, { workspace, lookup });
  }
  const filled = fillVariables(serverName, params, lookup);
  const log = limitedLogger(options.log ?? silentLogger);
  if ("command" in filled) {
    const commandLine = lineOf(params);
    return await connectStdio(serverName, filled, { ...options, log, commandLine });
  }
  return await connectHttp(serverName, filled, { ...options, log });
}

/** Options for either transport. */
interface InnerOptions extends SessionConnectOptions {
  readonly log: Logger;
}

const SANDBOX_HINT = "it can only reach what its arguments name and its settings allow, and no " +
  "network but the domains in them: see docs/servers.md";

async function connectStdio(
  serverName: string,
  params: StdioServerParams,
  options: InnerOptions & { readonly commandLine: string },
): Promise<McpConnection> {
  const { log, hooks, workspace, commandLine } = options;
  await using stack = new AsyncDisposableStack();
  using attempt = new Attempt(serverName, params, options);
  const state = `MCP server "${serverName}" is still starting (limit: ${attempt.seconds} s)`;
  let said = () => "";
  using _slow = new Deadline(SLOW_MS, {
    onPassed: () => log.info(`${state}: ${commandLine}${said()}`),
  });
  const { signal } = attempt;
  const launching = launchStdio(serverName, params, { ...options, belongings: stack, signal });
  const launch = await launching.catch((cause: unknown) => {
    if (cause !== attempt.deadline.signal?.reason) throw cause;
    const message = `The sandbox of MCP server "${serverName}" was not ready in time`;
    throw new McpConnectionError(serverName, message, {}, { cause });
  });
  const transport = new StdioTransport({
    ...launch,
    onStderr: (line) => log.debug(`${serverName}: ${line}`),
  });
  limitBacklog(transport, (error) => transport.fail(error));
  said = () => lastLines(transport.stderrTail);
  try {
    const client = await attempt.connect(transport, params.protocol ?? "legacy");
    const belongings = stack.move();
    const { ownFolder } = launch;
    const { timeoutMs: connectTimeoutMs } = attempt.deadline;
    const parts = { serverName, client, transport, log, hooks, connectTimeoutMs };
    return new McpConnection({ ...parts, belongings, ownFolder });
  } catch (error) {
    const exited = transport.failure === undefined && !attempt.expired && !isAnswer(error);
    const evidence: Partial<ProcessEvidence> | undefined = exited
      ? await transport.evidence()
      : { stderrTail: transport.stderrTail };
    await transport.abort();
    options.signal?.throwIfAborted();
    if (launch.sandboxed && exited) await requireSandboxPrerequisites(); // it may be the reason
    const message = transport.pid === null
      ? messageOf(error)
      : attempt.expired
      ? `MCP server "${serverName}" ${attempt.waited}`
      : `MCP server "${serverName}" ${endOf(evidence, transport.failure ?? error)}`;
    const where = launch.sandboxed ? ` in its sandbox (${SANDBOX_HINT})` : "";
    // Its own words may quote its secrets, so they are not on the first line, which code may read.
    const words = error instanceof ProtocolError ? `\nIt says: ${messageOf(error)}` : "";
    const hint = attempt.expired
      ? LONGER_HINT
      : await folderHint(params, launch.ownFolder, { workspace, stderrTail: evidence?.stderrTail });
    const text = prefixed(serverName, message + where + hint) + words;
    const Failure = attempt.expired ? SlowStartError : McpConnectionError;
    throw new Failure(serverName, text, evidence, { cause: error });
  }
}

/** A hint for a server that failed because it starts in an empty folder. */
async function folderHint(
  { command, args = [] }: StdioServerParams,
  ownFolder: string | undefined,
  { workspace, stderrTail = "" }: {
    readonly workspace: string | undefined;
    readonly stderrTail: string | undefined;
  },
): Promise<string> {
  if (ownFolder === undefined) return "";
  for (const word of command.includes("/") ? [command, ...args] : args) {
    if (workspace === undefined || isAbsolute(word) || !await isIn(workspace, word)) continue;
    const path = `'\${workspaceFolder}/${word.replace(/^\.\//, "")}'`;
    return `. ${
      JSON.stringify(word)
    } is in the workspace, but the server starts in an empty folder: ` +
      `write ${path}`;
  }
  return stderrTail.includes(ownFolder)
    ? ". It starts in an empty folder: if it needs the files of another one, as version managers do, " +
      'give it a "cwd" (--cwd DIR), an absolute path or a variable (--env NAME=VALUE)'
    : "";
}

/** Whether a workspace has a file at that relative path. */
async function isIn(workspace: string, word: string): Promise<boolean> {
  const path = resolve(workspace, word);
  if (path === resolve(workspace) || !isInside(path, resolve(workspace)) || !mayRead(path)) {
    return false;
  }
  return await Deno.lstat(path).then(() => true, () => false); // most words name no file
}

/** A server's command line as written, before variables are replaced. */
function lineOf(params: ServerParams): string {
  return "command" in params ? [params.command, ...(params.args ?? [])].join(" ") : params.url;
}

/** After this long, a person wants to know the reason for the delay. */
const SLOW_MS = 5000;

function lastLines(stderr: string): string {
  const last = stderr.trimEnd().split("\n").slice(-3).join("\n");
  return last === "" ? "" : `\n${last}`;
}

async function connectHttp(
  serverName: string,
  params: HttpServerParams,
  options: InnerOptions,
): Promise<McpConnection> {
  const { log, hooks } = options;
  const url = parseUrl(serverName, params.url);
  const requestInit = { headers: params.headers ?? {} };
  const failures: unknown[] = [];
  using attempt = new Attempt(serverName, params, options);
  const session = await openSession(serverName, url, params, options);
  using _paused = attempt.deadline.pauseWhilePending(session === undefined ? [] : [session]);
  const fetch = session?.fetch ?? exactFetch;
  for (const type of transportTypes(url, params)) {
    const transport = type === "sse"
      ? new SSEClientTransport(url, { requestInit, fetch })
      : new StreamableHTTPClientTransport(url, { requestInit, fetch });
    limitBacklog(transport, (error) => {
      log.warn(`MCP server "${serverName}" is disconnected: ${error.message}`);
      transport.close().catch((error) => log.error(`${serverName}: ${error}`));
    });
    try {
      // The SSE transport exists only in the handshake era.
      const protocol = type === "sse" ? "legacy" : params.protocol ?? "auto";
      const client = await attempt.connect(transport, protocol);
      const { timeoutMs: connectTimeoutMs } = attempt.deadline;
      const parts = { serverName, client, transport, log, hooks, connectTimeoutMs };
      return new McpConnection({ ...parts, session });
    } catch (error) {
      await transport.close();
      options.signal?.throwIfAborted();
      if (session?.failure !== undefined) throw session.failure;
      failures.push(error);
      if (attempt.expired || !isOtherTransport(error)) break;
    }
  }
  // Omits the query and the user, which may be secrets.
  const at = `MCP server "${serverName}" at ${url.origin}${url.pathname}`;
  const message = attempt.expired
    ? `${at} ${attempt.waited}${LONGER_HINT}`
    : `Cannot reach ${at}: ${failures.map(networkReasonOf).join("; ")}`;
  throw new McpConnectionError(serverName, message, {}, { cause: failures.at(-1) });
}

async function openSession(
  serverName: string,
  server: URL,
  params: HttpServerParams,
  { workspace, login, loginsFolder }: SessionConnectOptions,
): Promise<OAuthSession | undefined> {
  const { oauth, headers = {} } = params;
  const hasHeader = Object.keys(headers).some((name) => name.toLowerCase() === "authorization");
  if (oauth === false || hasHeader) return undefined;
  const where = { serverName, server, workspace, loginsFolder };
  return await OAuthSession.open({ ...where, params: oauth ?? {}, login });
}

/** How long a server may take to start. */
const CONNECT_MS = 60_000;
/** The same for one that may have to be downloaded first. */
const DOWNLOAD_MS = 180_000;

/** Programs that download a server if necessary, and then run it. */
const RUNNERS: ReadonlySet<string> = new Set(["npm", "npx", "uv", "uvx", "docker", "podman"]);

function isDownloaded(params: ServerParams): boolean {
  return "command" in params && RUNNERS.has(basename(params.command));
}

/** One or more attempts to connect that share a time limit. */
class Attempt implements Disposable {
  /** The time limit, which pauses while a person logs in. */
  readonly deadline: Deadline;
  /** Aborts when the time limit is reached or the caller cancels. */
  readonly signal: AbortSignal;
  readonly #options: SessionConnectOptions;
  readonly #serverName: string;

  constructor(serverName: string, params: ServerParams, options: SessionConnectOptions) {
    this.#serverName = serverName;
    this.#options = options;
    const given = params.connectTimeoutMs ?? options.connectTimeoutMs;
    this.deadline = new Deadline(given ?? (isDownloaded(params) ? DOWNLOAD_MS : CONNECT_MS));
    this.signal = anySignal(this.deadline.signal, options.signal);
  }

  get expired(): boolean {
    return this.deadline.passed;
  }

  [Symbol.dispose](): void {
    this.deadline[Symbol.dispose]();
  }

  /** The time limit in seconds. */
  get seconds(): number {
    return this.deadline.timeoutMs / 1000;
  }

  /** The step that took too long, for error messages. */
  get waited(): string {
    return `did not complete the MCP handshake within ${this.seconds} s`;
  }

  async connect(transport: Transport, protocol: McpProtocol): Promise<Client> {
    const { hooks, log } = this.#options;
    const client = makeClient(this.#serverName, { protocol, hooks, log });
    const timeout = LONGEST_TIMER_MS; // the signal ends it sooner
    const connected = client.connect(transport, { timeout, signal: this.signal });
    await abortable(connected, this.signal);
    return client;
  }
}

function transportTypes(url: URL, params: HttpServerParams): readonly ("http" | "sse")[] {
  if (params.type !== undefined) return [params.type === "sse" ? "sse" : "http"];
  const segments = url.pathname.split("/");
  if (segments.includes("mcp")) return ["http"];
  if (segments.includes("sse")) return ["sse"];
  return ["http", "sse"];
}

/** Whether an error means that the server answered, so that this side ended the connection. */
function isAnswer(error: unknown): boolean {
  return error instanceof ProtocolError ||
    (error instanceof SdkError && error.code === SdkErrorCode.InvalidResult);
}

/** Whether an error means that the address does not support this transport. */
function isOtherTransport(error: unknown): boolean {
  return error instanceof SdkHttpError && error.status >= 400 && error.status < 500 &&
    error.status !== 401 && error.status !== 403;
}

function parseUrl(serverName: string, text: string): URL {
  const url = URL.parse(text);
  if (url?.protocol !== "http:" && url?.protocol !== "https:") {
    throw new ConfigError(
      `Invalid parameters of MCP server "${serverName}": "url" must be an http or https address`,
    );
  }
  return url;
}

function endOf(evidence: Partial<ProcessEvidence> | undefined, error: unknown): string {
  if (typeof evidence?.exitCode === "number") {
    return `exited with code ${evidence.exitCode} before it answered`;
  }
  if (typeof evidence?.signal === "string") {
    return `was killed by ${evidence.signal} before it answered`;
  }
  if (error instanceof ProtocolError) return `refused the connection (error ${error.code})`;
  return `cannot be used: ${messageOf(error)}`;
}

function prefixed(serverName: string, message: string): string {
  return message.includes(`"${serverName}"`) ? message : `MCP server "${serverName}": ${message}`;
}

/** Why a request failed: the innermost cause of the errors of the SDK and `fetch`. */
function networkReasonOf(error: unknown): string {
  if (error instanceof Error && error.cause instanceof Error) return networkReasonOf(error.cause);
  // The full URL may contain a secret; the caller's message has it without the query.
  return messageOf(error).replace(/^error sending request for url \(\S*\): /, "");
}
