import { basename } from "node:path";
import { ConfigError, McpConnectionError, type ProcessEvidence } from "../base/errors.ts";
import { limitedLogger, type Logger, silentLogger } from "../base/log.ts";
import { mayRead } from "../base/permission.ts";
import { RateLimit } from "../base/rate_limit.ts";
import { abortable, anySignal, LONGEST_TIMER_MS } from "../base/signals.ts";
import { TimeBudget } from "../base/time_budget.ts";
import { requireSandboxPrerequisites } from "../sandbox/prerequisites.ts";
import { listingLimit } from "./catalog.ts";
import { limitBacklog, makeClient } from "./client.ts";
import { McpConnection } from "./connection.ts";
import { exactFetch } from "./exact_fetch.ts";
import type { ServerHooks } from "./hooks.ts";
import { launchStdio } from "./launch.ts";
import type { LoginOptions } from "./oauth/login.ts";
import { OAuthSession } from "./oauth/session.ts";
import {
  checkServerName,
  fillVariables,
  type HttpServerParams,
  type McpProtocol,
  type ServerParams,
  SlowStartError,
  type StdioServerParams,
  type VariableLookup,
  variableLookup,
} from "./params.ts";
import { messageOf } from "./results.ts";
import {
  type Client,
  type FetchLike,
  ProtocolError,
  SdkError,
  SdkErrorCode,
  SdkHttpError,
  SSEClientTransport,
  StreamableHTTPClientTransport,
  type Transport,
} from "./sdk.ts";
import { StdioTransport } from "./stdio.ts";

/** How MCP servers are started and reached: options of everything that does it. */
export interface ConnectOptions {
  /**
   * The folder in which executed code works. `.ipybox/mcp.json` in it registers servers, its `.env`
   * gives values of `${VAR}` after the environment, and `${workspaceFolder}` stands for its path.
   *
   * @default {undefined} no server is registered but those that are given
   */
  workspace?: string;
  /**
   * How long an MCP server may take to start and to answer, in milliseconds, unless its parameters
   * say. The time in which a package runner such as `npx` fetches it does not count, where that can be
   * seen.
   *
   * @default {60000}
   */
  connectTimeoutMs?: number;
  /**
   * Gives the values of `${VAR}` in servers' parameters.
   *
   * @default {undefined} the environment, then the workspace's `.env`
   */
  variables?: VariableLookup;
  /**
   * Lets a person log in to remote servers that ask for it. No time limit of a server includes the
   * login; an execution's does.
   *
   * @default {undefined} such a server cannot be used, and the error says how to log in
   */
  login?: LoginOptions;
  /**
   * Receives log messages.
   *
   * @default warnings and errors go to stderr; `generateMcpSources()` logs nothing
   */
  log?: Logger;
}

/** Options of {@linkcode connectMcp} for one of several servers of the same session. */
export interface SessionConnectOptions extends ConnectOptions {
  /**
   * The settings files in the workspace, for sandboxes of servers, that executed code cannot change.
   * Others there are refused; without the list, all are taken.
   */
  settingsFiles?: readonly string[];
  /** The folder where logins are kept, in place of `$XDG_STATE_HOME/ipybox/logins`. */
  loginsFolder?: string;
  /** What the server may tell and ask without being called. */
  hooks?: ServerHooks;
  /** Cancels it. */
  signal?: AbortSignal;
  /** For whom messages come: the session, which all its servers name. See {@linkcode MessageRoom}. */
  owner?: object;
}

/** Starts or reaches an MCP server. */
export async function connectMcp(
  serverName: string,
  params: ServerParams,
  options: SessionConnectOptions = {},
): Promise<McpConnection> {
  checkServerName(serverName);
  const variables = options.variables ??
    await variableLookup(options.workspace, { log: options.log });
  const filled = fillVariables(serverName, params, variables);
  const log = limitedLogger(options.log ?? silentLogger);
  const listings = listingLimit(params);
  if ("command" in filled) {
    const commandLine = lineOf(params);
    return await connectStdio(serverName, filled, { ...options, log, listings, commandLine });
  }
  return await connectHttp(serverName, filled, { ...options, log, listings });
}

/** What a connection is made with, whatever its transport. */
interface InnerOptions extends SessionConnectOptions {
  readonly log: Logger;
  readonly listings: RateLimit;
}

const SANDBOX_HINT = "it can only reach what its arguments name and its settings allow, and no " +
  "network but the domains in them: see docs/servers.md";

const LONGER_HINT = ". If this machine is slow or busy, try again; if the server needs longer, " +
  "register it with --connect-timeout SECONDS";

async function connectStdio(
  serverName: string,
  params: StdioServerParams,
  options: InnerOptions & { readonly commandLine: string },
): Promise<McpConnection> {
  const { log, listings, hooks, workspace, settingsFiles, commandLine } = options;
  await using stack = new AsyncDisposableStack();
  using attempt = new Attempt(serverName, params, options);
  let state = () => "is still starting";
  let said = () => "";
  using _slow = whenSlow(() => {
    log.info(`MCP server "${serverName}" ${state()}: ${commandLine}${said()}`);
  });
  const launching = launchStdio(serverName, params, {
    workspace,
    settingsFiles,
    belongings: stack,
    log,
    signal: attempt.signal,
  });
  const launch = await launching.catch((cause: unknown) => {
    if (cause !== attempt.budget.signal.reason) throw cause;
    const message = `The sandbox of MCP server "${serverName}" was not ready in time`;
    throw new McpConnectionError(serverName, message, {}, { cause });
  });
  const transport = new StdioTransport({
    ...launch,
    owner: options.owner,
    onStderr: (line) => log.debug(`${serverName}: ${line}`),
  });
  limitBacklog(transport, (error) => transport.fail(error));
  said = () => lastWords(transport.stderrTail);
  using fetch = new PackageFetch(launch.command, () => transport.pid, attempt.budget);
  state = () =>
    fetch.underWay
      ? "is being downloaded, which can take minutes"
      : `is still starting (limit: ${attempt.seconds} s)`;
  try {
    const client = await attempt.connect(transport, params.protocol ?? "legacy");
    const belongings = stack.move();
    const { ownFolder } = launch;
    const parts = { serverName, client, transport, log, listings, hooks };
    return new McpConnection({ ...parts, belongings, ownFolder });
  } catch (error) {
    const exited = transport.failure === undefined && !attempt.expired && !isAnswer(error);
    const evidence: Partial<ProcessEvidence> | undefined = exited
      ? await transport.evidence()
      : { stderrTail: transport.stderrTail };
    await transport.abort();
    options.signal?.throwIfAborted();
    if (launch.sandboxed && exited) await requireSandboxPrerequisites(); // it may be why
    const message = transport.pid === null
      ? messageOf(error)
      : attempt.expired
      ? `MCP server "${serverName}" ${attempt.waited}`
      : `MCP server "${serverName}" ${endOf(evidence, transport.failure ?? error)}`;
    const where = launch.sandboxed ? ` in its sandbox (${SANDBOX_HINT})` : "";
    const text = prefixed(serverName, message + where + (attempt.expired ? LONGER_HINT : ""));
    const Failure = attempt.expired ? SlowStartError : McpConnectionError;
    throw new Failure(serverName, text, evidence, { cause: error });
  }
}

/** A server's command line as it was written: without what fills its variables. */
function lineOf(params: ServerParams): string {
  return "command" in params ? [params.command, ...(params.args ?? [])].join(" ") : params.url;
}

/** After this long, a person wants to know what is being waited for. */
const SLOW_MS = 5000;

function whenSlow(tell: () => void): Disposable {
  const timer = setTimeout(tell, SLOW_MS);
  return { [Symbol.dispose]: () => clearTimeout(timer) };
}

function lastWords(stderr: string): string {
  const last = stderr.trimEnd().split("\n").slice(-3).join("\n");
  return last === "" ? "" : `\n${last}`;
}

async function connectHttp(
  serverName: string,
  params: HttpServerParams,
  options: InnerOptions,
): Promise<McpConnection> {
  const { log, listings, hooks, owner = {} } = options;
  const url = parseUrl(serverName, params.url);
  const requestInit = { headers: params.headers ?? {} };
  const failures: unknown[] = [];
  using attempt = new Attempt(serverName, params, options);
  const session = await openSession(serverName, url, params, attempt, { ...options, owner });
  const fetch = pacedStreams(session?.fetch ?? exactFetch(owner));
  const reconnectionScheduler = scheduleRetry;
  for (const type of transportTypes(url, params)) {
    const transport = type === "sse"
      ? new SSEClientTransport(url, { requestInit, fetch })
      : new StreamableHTTPClientTransport(url, { requestInit, fetch, reconnectionScheduler });
    limitBacklog(transport, (error) => {
      log.warn(`MCP server "${serverName}" is disconnected: ${error.message}`);
      transport.close().catch((error) => log.error(`${serverName}: ${error}`));
    });
    try {
      // The transport of the older era has no newer one.
      const protocol = type === "sse" ? "legacy" : params.protocol ?? "auto";
      const client = await attempt.connect(transport, protocol);
      return new McpConnection({ serverName, client, transport, log, listings, hooks, session });
    } catch (error) {
      await transport.close();
      options.signal?.throwIfAborted();
      if (session?.failure !== undefined) throw session.failure;
      failures.push(error);
      if (attempt.expired || !isOtherTransport(error)) break;
    }
  }
  // Without the query and the user: they may be secrets.
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
  attempt: Attempt,
  { workspace, login, loginsFolder, owner }: SessionConnectOptions & { readonly owner: object },
): Promise<OAuthSession | undefined> {
  const { oauth, headers = {} } = params;
  const hasHeader = Object.keys(headers).some((name) => name.toLowerCase() === "authorization");
  if (oauth === false || hasHeader) return undefined;
  const onWaiting = (waiting: boolean) => attempt.budget.setPending(waiting ? 1 : 0);
  const where = { serverName, server, workspace, loginsFolder, owner };
  return await OAuthSession.open({ ...where, params: oauth ?? {}, login, onWaiting });
}

/** One try to connect, or several that share a time limit. */
class Attempt implements Disposable {
  /** The time limit, which stands still while a person logs in. */
  readonly budget: TimeBudget;
  readonly #timeoutMs: number;
  /** Cancels it: it took too long, or the caller no longer wants it. */
  readonly signal: AbortSignal;
  readonly #options: SessionConnectOptions;
  readonly #serverName: string;

  constructor(serverName: string, params: ServerParams, options: SessionConnectOptions) {
    const connectTimeoutMs = params.connectTimeoutMs ?? options.connectTimeoutMs ?? 60_000;
    this.#serverName = serverName;
    this.#options = options;
    this.#timeoutMs = connectTimeoutMs;
    this.budget = new TimeBudget(connectTimeoutMs);
    this.signal = anySignal(this.budget.signal, options.signal);
  }

  get expired(): boolean {
    return this.budget.expired;
  }

  [Symbol.dispose](): void {
    this.budget[Symbol.dispose]();
  }

  /** The time limit. */
  get seconds(): number {
    return this.#timeoutMs / 1000;
  }

  /** What was waited for, and how long. */
  get waited(): string {
    return `did not complete the MCP handshake within ${this.seconds} s`;
  }

  async connect(transport: Transport, protocol: McpProtocol): Promise<Client> {
    const { hooks, log } = this.#options;
    const client = makeClient(this.#serverName, { protocol, hooks, log });
    const timeout = LONGEST_TIMER_MS; // the signal comes first
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

/** Whether an error says that a server answered, so that the connection was ended from this side. */
function isAnswer(error: unknown): boolean {
  return error instanceof ProtocolError ||
    (error instanceof SdkError && error.code === SdkErrorCode.InvalidResult);
}

/** Whether an error says that the address speaks, but not this transport. */
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
  return `cannot be used: ${messageOf(error)}`;
}

function prefixed(serverName: string, message: string): string {
  return message.includes(`"${serverName}"`) ? message : `MCP server "${serverName}": ${message}`;
}

/** Why a request failed: at the bottom of what the SDK and `fetch` make of it. */
function networkReasonOf(error: unknown): string {
  if (error instanceof Error && error.cause instanceof Error) return networkReasonOf(error.cause);
  // The whole address may hold a secret, and the message has it without its query.
  return messageOf(error).replace(/^error sending request for url \(\S*\): /, "");
}

/** Programs that fetch a server where it is not there yet, and then start it as their child. */
const RUNNERS: ReadonlySet<string> = new Set(["npm", "npx", "uv", "uvx"]);

/** No process tells its parent about its children. */
const POLL_MS = 250;
/** A runner that has nothing to show for it after this long does not fetch any more. */
const LONGEST_FETCH_MS = 600_000;

/**
 * Leaves the time that a package runner takes to fetch a server out of the server's time to start.
 *
 * The server has started once the runner has a child. Where that cannot be seen (only Linux shows it,
 * and Deno only to programs with all permissions), all of the time counts.
 */
class PackageFetch implements Disposable {
  readonly #pid: () => number | null;
  readonly #budget: TimeBudget;
  readonly #since: number = performance.now();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #disposed = false;
  #underWay = false;

  constructor(command: string, pid: () => number | null, budget: TimeBudget) {
    this.#pid = pid;
    this.#budget = budget;
    const isSeen = Deno.build.os === "linux" && mayRead("/proc");
    if (isSeen && RUNNERS.has(basename(command))) this.#look();
  }

  /** Whether the server is being fetched. */
  get underWay(): boolean {
    return this.#underWay;
  }

  [Symbol.dispose](): void {
    this.#disposed = true;
    clearTimeout(this.#timer);
  }

  async #look(): Promise<void> {
    const pid = this.#pid();
    const waits = performance.now() - this.#since < LONGEST_FETCH_MS;
    const fetches = waits && pid !== null && await isChildless(pid);
    if (this.#disposed) return;
    this.#underWay = fetches;
    this.#budget.setPending(fetches ? 1 : 0);
    if (waits) this.#timer = setTimeout(() => this.#look(), POLL_MS);
  }
}

/** Whether a process runs and has no child. */
async function isChildless(pid: number): Promise<boolean> {
  const tasks = `/proc/${pid}/task`;
  try {
    for await (const { name } of Deno.readDir(tasks)) {
      if (await Deno.readTextFile(`${tasks}/${name}/children`) !== "") return false;
    }
    return true;
  } catch {
    return false; // it has ended, or one may not look
  }
}

/** A server may end its streams and say how soon they are wanted back: `retry: 0` would have no end. */
const STREAMS_PER_SECOND = 2;
const STREAMS_AT_ONCE = 60;
/** The SDK forgets some of its timers, and this process would wait for them. */
const LONGEST_RETRY_MS = 60_000;

/** Bounds how often streams of events are opened. */
function pacedStreams(fetch: FetchLike): FetchLike {
  const limit = new RateLimit(STREAMS_PER_SECOND, STREAMS_AT_ONCE);
  return async (url, init) => {
    if ((init?.method ?? "GET") === "GET") {
      limit.charge(1);
      await limit.settled(init?.signal ?? undefined);
    }
    return await fetch(url, init);
  };
}

/** Waits before the SDK opens a stream again: no longer than is reasonable, whatever the server wants. */
function scheduleRetry(retry: () => void, delayMs: number): () => void {
  const timer = setTimeout(retry, Math.min(delayMs, LONGEST_RETRY_MS));
  return () => clearTimeout(timer);
}
