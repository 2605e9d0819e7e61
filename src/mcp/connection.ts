import { isAbsolute, join } from "node:path";
import { z } from "zod";
import type { ToolCallError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { Mutex } from "../base/mutex.ts";
import { mayRead } from "../base/permission.ts";
import { Deadline } from "../base/deadline.ts";
import { anySignal, LONGEST_TIMER_MS, settledWithin } from "../base/signals.ts";
import { traceContext } from "../base/telemetry.ts";
import type { ExactObject } from "../json/exact.ts";
import { isInside } from "../process/trusted_path.ts";
import {
  explainAnswer,
  explainDeath,
  explainForgotten,
  explainUnreachable,
} from "./call_errors.ts";
import { callFailure, explainLogin, LONGER_HINT } from "./start_errors.ts";
import {
  type CatalogMethod,
  isListMethod,
  listAll,
  type ListMethod,
  malformed,
  parseCatalogResult,
} from "./catalog.ts";
import { listenForChanges, LOG_REQUEST, requestLog } from "./client.ts";
import type { CallToolOptions, ListToolsOptions, ServerHooks } from "./hooks.ts";
import type { OAuthSession } from "./oauth/session.ts";
import { responseText } from "./message.ts";
import { parseElicitation } from "./questions.ts";
import { parseToolResult, type ToolResult } from "./results.ts";
import {
  type Client,
  ProtocolError,
  ProtocolErrorCode,
  type RequestOptions,
  StreamableHTTPClientTransport,
  type Transport,
} from "./sdk.ts";
import { StdioTransport } from "./stdio.ts";
import {
  headerProblem,
  hideFromSdk,
  offersTasks,
  readTool,
  requiresTask,
  runTask,
  type Tool,
} from "./tools.ts";

/** The parts of a {@linkcode McpConnection}. */
interface McpConnectionParts {
  /** The server's registered name. */
  readonly serverName: string;
  readonly client: Client;
  readonly transport: Transport;
  /** Receives the stderr tail of a server that died. */
  readonly log: Logger;
  /** The time limit for connecting, and for each page of the tool list. */
  readonly connectTimeoutMs: number;
  /** How to react to the server's unprompted messages. */
  readonly hooks?: ServerHooks;
  /** The login to a remote server. */
  readonly session?: OAuthSession;
  /** Disposed of when the connection has ended. */
  readonly belongings?: AsyncDisposable;
  /** The folder that was created for the server, if that is its working directory. */
  readonly ownFolder?: string;
}

/** Options of {@linkcode McpConnection.callTool}. */
export interface SendToolOptions extends CallToolOptions {
  /** Called with the tool as the server lists it, each time before the call is sent. It may throw. */
  readonly compare?: ((current: Tool | undefined) => void) | undefined;
}

/** A server's description of itself and its tools. */
export interface ServerDescription {
  /** The entries of all pages of its tool list, as received. */
  readonly tools: readonly unknown[];
  /** For each entry, why it cannot be called; `undefined` if it can. */
  readonly unusable: readonly (string | undefined)[];
  /** Its name, title and version. */
  readonly serverInfo: unknown;
  /** Its instructions for models. */
  readonly instructions: string | undefined;
}

interface Listed {
  /** The server's entries, as received. */
  readonly entries: readonly unknown[];
  /** For each entry, why it cannot be called; `undefined` if it can. */
  readonly unusable: readonly (string | undefined)[];
  /** The entries that can be called. */
  readonly tools: readonly Tool[];
}

/** The tools of a list that can be called: of those with the same name, the first. */
function usableTools(
  entries: readonly unknown[],
  unusable: readonly (string | undefined)[],
): readonly Tool[] {
  const tools = new Map<string, Tool>();
  for (const [i, entry] of entries.entries()) {
    const tool = unusable[i] === undefined ? readTool(entry) : undefined;
    if (tool !== undefined && !tools.has(tool.name)) tools.set(tool.name, tool);
  }
  return [...tools.values()];
}

/** The SDK's schema for results: accepts everything unchanged. */
const AS_IT_CAME = z.unknown();
/** The SDK requires a limit; ours are signals. */
const NO_TIMEOUT = LONGEST_TIMER_MS;
/** The time limit for ending a session. */
const FAREWELL_MS = 1000;
/** How often to wait for a list that keeps changing. */
const MAX_SETTLE_ROUNDS = 10;

/** A connection to one MCP server. Disposing it stops the server's process or ends the session. */
export class McpConnection implements AsyncDisposable {
  /** The server's registered name. */
  readonly serverName: string;
  /** Resolves, never rejects, once the connection has become unusable. */
  readonly closed: Promise<void>;

  readonly #parts: McpConnectionParts;
  readonly #client: Client;
  readonly #transport: Transport;
  readonly #hooks: ServerHooks;
  readonly #lookups = new Mutex();
  readonly #lost = Promise.withResolvers<void>();
  #tools: readonly Tool[] | undefined;
  #changes = 0;
  #forgotten = false;
  #warned = false;
  #closing: Promise<void> | undefined;

  /** @param parts A connected client and its transport. */
  constructor(parts: McpConnectionParts) {
    this.serverName = parts.serverName;
    this.#parts = parts;
    this.#client = parts.client;
    this.#transport = parts.transport;
    this.#hooks = parts.hooks ?? {};
    this.closed = this.#lost.promise;
    hideFromSdk(this.#transport);
    this.#client.onclose = () => this.#lose();
    this.#client.setNotificationHandler("notifications/tools/list_changed", () => {
      this.#changes++;
      this.#tools = undefined;
      this.#hooks.onToolsChanged?.();
    });
    if (this.#hooks.onLog !== undefined) requestLog(this.#client, this.#unable);
    listenForChanges(this.#client, this.#unable);
    this.#hooks.onStarted?.();
  }

  /** Lists all tools that can be called. */
  async listTools(options: ListToolsOptions = {}): Promise<readonly Tool[]> {
    return (await this.#list(options)).tools;
  }

  /** Requests everything that an API is generated from. */
  async describe(options: ListToolsOptions = {}): Promise<ServerDescription> {
    const { entries: tools, unusable } = await this.#list(options);
    const serverInfo = this.#client.getServerVersion();
    return { tools, unusable, serverInfo, instructions: this.#client.getInstructions() };
  }

  /** Why an entry of the server's list cannot be called; `undefined` if it can. */
  #problemOf(entry: unknown): string | undefined {
    const tool = readTool(entry);
    if (!this.#isModern && requiresTask(tool) && !offersTasks(this.#client)) {
      return "It runs only as a task, and its server does not support tasks";
    }
    return this.#sendsHeaders ? headerProblem(tool?.inputSchema) : undefined;
  }

  /** Finds a tool in the server's list, which is fetched again after a change. */
  async findTool(name: string, signal?: AbortSignal): Promise<Tool | undefined> {
    // One at a time, so that later lookups find the list of the first one.
    using _turn = await this.#lookups.acquire(signal).catch(async (error) => {
      throw await this.#explain(error, signal);
    });
    const tools = this.#tools ?? await this.listTools({ signal });
    return tools.find((tool) => tool.name === name);
  }

  /** All tools that can be called, if the list is known. */
  get knownTools(): readonly Tool[] {
    return this.#tools ?? [];
  }

  /** A tool that can be called, if the list is known. */
  knownTool(name: string): Tool | undefined {
    return this.knownTools.find((tool) => tool.name === name);
  }

  async callTool(
    name: string,
    args: ExactObject,
    options: SendToolOptions = {},
  ): Promise<ToolResult> {
    const { signal, timeoutMs, onProgress, compare } = options;
    using deadline = new Deadline(timeoutMs);
    let started = false;
    const request = {
      signal: anySignal(signal, deadline.signal),
      timeout: NO_TIMEOUT,
      onprogress: onProgress,
      onStarted: () => started = true,
    };
    const send = async () => {
      if (compare !== undefined) {
        compare(this.knownTool(name) ?? await this.findTool(name, request.signal));
      }
      return parseToolResult(responseText(await this.#send(name, args, request)));
    };
    try {
      return await send().catch(async (error) => {
        if (!await openRequiredUrls(error, this.#hooks.elicit, request.signal)) throw error;
        return await send(); // the first attempt was rejected before it did anything
      });
    } catch (error) {
      throw await this.#explain(error, signal, { deadline, started });
    }
  }

  /** Finds a file that a result mentions and that only the server can reach. */
  async ownFileIn(result: ToolResult): Promise<string | undefined> {
    if (this.#parts.ownFolder === undefined) return undefined;
    const texts = result.content.flatMap(({ text }) => typeof text === "string" ? [text] : []);
    return await fileNamedIn(this.#parts.ownFolder, texts.join("\n"));
  }

  /** Sends a request about resources, prompts or completions. */
  async catalog(
    method: CatalogMethod,
    params: Readonly<Record<string, unknown>>,
    options: CallToolOptions = {},
  ): Promise<Readonly<Record<string, unknown>>> {
    const { signal, timeoutMs } = options;
    using deadline = new Deadline(timeoutMs);
    const request = { signal: anySignal(signal, deadline.signal), timeout: NO_TIMEOUT };
    const meta = asMeta(traceContext());
    const ask = (params: Readonly<Record<string, unknown>>) =>
      this.#client.request({ method, params: { ...params, ...meta } }, AS_IT_CAME, request);
    try {
      if (isListMethod(method)) {
        return { items: this.#offers(method) ? await listAll(method, ask) : [] };
      }
      return parseCatalogResult(method, await ask(params)) ?? malformed(method);
    } catch (error) {
      throw await this.#explain(error, signal, { deadline });
    }
  }

  /** Stops the server's process or ends the session. */
  async [Symbol.asyncDispose](): Promise<void> {
    await (this.#closing ??= this.#close());
  }

  get #isModern(): boolean {
    return this.#client.getProtocolEra() === "modern";
  }

  /** Whether the server keeps a session for this connection that it may forget. */
  get #isSession(): boolean {
    if (this.#transport instanceof StdioTransport || this.#isModern) return false;
    const isStreamable = this.#transport instanceof StreamableHTTPClientTransport;
    return !isStreamable || this.#transport.sessionId !== undefined;
  }

  /** Whether requests repeat arguments in headers. */
  get #sendsHeaders(): boolean {
    return this.#isModern && this.#transport.hasPerRequestStream === true;
  }

  async #list(
    { settleMs = 0, signal }: ListToolsOptions,
  ): Promise<Listed> {
    if (this.#client.getServerCapabilities()?.tools === undefined) {
      return { entries: [], unusable: [], tools: [] };
    }
    if (settleMs > 0) await this.#settle(settleMs);
    try {
      const changes = this.#changes;
      const entries = await listAll(
        "tools/list",
        (params) => this.#listPage(params, signal),
      );
      const unusable = entries.map((entry) => this.#problemOf(entry));
      const tools = usableTools(entries, unusable);
      if (changes === this.#changes) this.#tools = tools;
      return { entries, unusable, tools };
    } catch (error) {
      throw await this.#explain(error, signal);
    }
  }

  /** Requests a page of the tool list. The time limit pauses while a person logs in. */
  async #listPage(params: { cursor?: string }, signal: AbortSignal | undefined): Promise<unknown> {
    const { connectTimeoutMs, session } = this.#parts;
    using deadline = new Deadline(connectTimeoutMs);
    using _paused = deadline.pauseWhilePending(session === undefined ? [] : [session]);
    const request = { timeout: NO_TIMEOUT, signal: anySignal(signal, deadline.signal) };
    try {
      return await this.#client.request({ method: "tools/list", params }, AS_IT_CAME, request);
    } catch (error) {
      if (!deadline.passed || signal?.aborted) throw error;
      const problem = `did not list its tools within ${connectTimeoutMs / 1000} s${LONGER_HINT}`;
      throw callFailure(this.serverName, "server_unreachable", problem, { cause: error });
    }
  }

  #offers(method: ListMethod): boolean {
    const { resources, prompts } = this.#client.getServerCapabilities() ?? {};
    return (method === "prompts/list" ? prompts : resources) !== undefined;
  }

  async #send(
    name: string,
    args: ExactObject,
    { onStarted, ...options }: RequestOptions & { readonly onStarted: () => void },
  ): Promise<unknown> {
    const meta = asMeta({
      ...(this.#isModern && this.#hooks.onLog !== undefined ? LOG_REQUEST : {}),
      ...traceContext(),
    });
    const params = { name, arguments: args, ...meta };
    if (this.#sendsHeaders) {
      // Only callTool() copies arguments into headers as the tool's schema asks. It would also
      // reject results that do not match the output schema, so that is left out.
      const tool = await this.findTool(name, options.signal);
      const inputSchema = { ...tool?.inputSchema, type: "object" } as const;
      return await this.#client.callTool(params, {
        ...options,
        toolDefinition: { name, inputSchema },
      });
    }
    if (offersTasks(this.#client) && requiresTask(await this.findTool(name, options.signal))) {
      const task = { ...options, onStarted, unable: this.#unable };
      return await runTask(this.#client, params, task);
    }
    // A plain request leaves the result unchanged.
    return await this.#client.request({ method: "tools/call", params }, AS_IT_CAME, options);
  }

  /** Waits until the server reports no change of its list for a while. */
  async #settle(quietMs: number): Promise<void> {
    if (!this.#client.getServerCapabilities()?.tools?.listChanged) return;
    for (let round = 0; round < MAX_SETTLE_ROUNDS; round++) {
      const changes = this.#changes;
      if (await settledWithin(this.closed, quietMs) || changes === this.#changes) return;
    }
  }

  async #close(): Promise<void> {
    if (this.#transport instanceof StreamableHTTPClientTransport && !this.#forgotten) {
      // A courtesy to the server, which may be gone or have no sessions.
      const farewell = this.#transport.terminateSession();
      farewell.catch((error) => this.#parts.log.debug(`${this.serverName}: ${error}`));
      await settledWithin(farewell, FAREWELL_MS);
    }
    await this.#client.close();
    // The SDK drops a transport that closed on its own, whose process may still be exiting.
    if (this.#transport instanceof StdioTransport) await this.#transport.close();
    this.#lose();
    await this.#parts.belongings?.[Symbol.asyncDispose]();
  }

  /** Warns that the connection has become unusable: only once, however many calls fail. */
  readonly #warn = (message: string): void => {
    if (this.#warned) return;
    this.#warned = true;
    this.#parts.log.warn(message);
  };

  readonly #unable = (error: unknown): void =>
    this.#parts.log.debug(`${this.serverName}: ${error}`);

  #lose(): void {
    this.#lost.resolve();
  }

  /** Converts an error of the SDK into one of ours. */
  async #explain(
    error: unknown,
    signal: AbortSignal | undefined,
    { deadline, started = false }: ExplainOptions = {},
  ): Promise<ToolCallError> {
    const forgotten = this.#isSession
      ? explainForgotten(this.serverName, error, started)
      : undefined;
    if (forgotten !== undefined) {
      this.#forgotten = true;
      this.#lose();
      return forgotten;
    }
    const answer = explainAnswer(this.serverName, error, {
      cancelled: signal?.aborted ?? false,
      timedOut: deadline?.passed ?? false,
    });
    if (answer !== undefined) return answer;
    this.#lose();
    if (this.#transport instanceof StdioTransport) {
      return await explainDeath(this.serverName, this.#transport, error, this.#warn);
    }
    const { failure } = this.#parts.session ?? {};
    if (failure !== undefined) {
      this.#warn(failure.message);
      return explainLogin(failure);
    }
    return explainUnreachable(this.serverName, error);
  }
}

interface ExplainOptions {
  readonly deadline?: Deadline;
  /** Whether the tool runs, as a task. */
  readonly started?: boolean;
}

/** The metadata of a request, if any. */
function asMeta(
  meta: Readonly<Record<string, unknown>>,
): { _meta?: Readonly<Record<string, unknown>> } {
  return Object.keys(meta).length === 0 ? {} : { _meta: meta };
}

/** More than a person would open for one call. */
const MAX_ADDRESSES = 5;

const required = z.object({
  elicitations: z.array(z.looseObject({ mode: z.literal("url") })).min(1).max(MAX_ADDRESSES),
});

/** Asks a person to open the URLs that a server requires before a call, for example to sign in. */
async function openRequiredUrls(
  error: unknown,
  elicit: ServerHooks["elicit"],
  signal: AbortSignal,
): Promise<boolean> {
  if (!(error instanceof ProtocolError) || elicit === undefined) return false;
  if (error.code !== ProtocolErrorCode.UrlElicitationRequired) return false;
  const { elicitations = [] } = required.safeParse(error.data).data ?? {};
  for (const params of elicitations) {
    const question = parseElicitation(params);
    if (typeof question === "string") return false;
    if ((await elicit(question, signal)).action !== "accept") return false;
  }
  return elicitations.length > 0;
}

/** A server determines the size of the text and the number of file names in it. */
const MAX_TEXT = 64 * 1024;
const MAX_FILES = 50;
const MAX_LENGTH = 500;

/** Separates words, and the paths among them, in a text. */
const SEPARATORS = /[\s"'`()[\]{}<>,;|]/;

/** Finds a file in a server's own folder that a text mentions. */
async function fileNamedIn(folder: string, text: string): Promise<string | undefined> {
  if (!mayRead(folder)) return undefined;
  const paths = new Set<string>();
  for (const word of text.slice(0, MAX_TEXT).split(SEPARATORS)) {
    if (paths.size >= MAX_FILES) break;
    const path = pathIn(folder, word);
    if (path !== undefined) paths.add(path);
  }
  const real = await Deno.realPath(folder);
  for (const path of paths) if (await isFile(join(real, path))) return path;
  return undefined;
}

/** The path below a folder that a word may stand for. */
function pathIn(folder: string, word: string): string | undefined {
  if (word.length > MAX_LENGTH || !/[./]/.test(word)) return undefined;
  const path = (isInside(word, folder) ? word.slice(folder.length + 1) : word)
    .replace(/[.:!?]{1,3}$/, "").replace(/^\.\//, "");
  const isBelow = path !== "" && !isAbsolute(path) && !path.includes("\0") &&
    !path.split("/").includes("..");
  return isBelow ? path : undefined;
}

async function isFile(path: string): Promise<boolean> {
  try {
    if (await Deno.realPath(path) !== path) return false; // a link of the server's, which leads anywhere
    return (await Deno.lstat(path)).isFile;
  } catch {
    return false; // the server decides on the content; most words are not files
  }
}
