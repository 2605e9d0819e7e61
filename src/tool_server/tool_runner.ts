import { ApprovalChannel } from "../approval/channel.ts";
import { approvalPolicy } from "../approval/policy.ts";
import type { ApprovalCall, CallSource } from "../approval/request.ts";
import { AuditLog } from "../audit/audit_log.ts";
import { AuditTrail, type RequestNotes } from "../audit/audit_trail.ts";
import { ToolCallError } from "../errors.ts";
import { type ExactObject, sealObject, toExact } from "../json/exact.ts";
import { type Logger, stderrLogger } from "../log.ts";
import type { CallToolOptions, ToolProgress } from "../mcp/call_options.ts";
import { type CatalogMethod, checkCatalogParams, isListMethod } from "../mcp/catalog.ts";
import type { ToolResult } from "../mcp/content.ts";
import type { ElicitationAnswer, ElicitationQuestion } from "../mcp/elicitation.ts";
import type { Tool } from "../mcp/sdk.ts";
import type { ServerHooks } from "../mcp/server_hooks.ts";
import type { ServerParams, VariableLookup } from "../mcp/server_params.ts";
import { hasOwnDotenv } from "../mcp/dotenv_file.ts";
import { presentSettings } from "../mcp/sandbox_settings.ts";
import { variableLookup } from "../mcp/variables.ts";
import { ConsentFile } from "../policy/consent_file.ts";
import { Approvals } from "./approvals.ts";
import { type McpRequest, traceMcpRequest } from "../telemetry/mcp_span.ts";
import { captureTrace, loadTelemetry, type Span, type Within } from "../telemetry/span.ts";
import { CallWatch } from "./call_watch.ts";
import { ElicitationChannel } from "./elicitation_channel.ts";
import { McpPool } from "./mcp_pool.ts";
import { ServerEvents } from "./server_events.ts";
import { targetHashes } from "./target_hashes.ts";
import type { ToolRunnerOptions } from "./tool_runner_options.ts";
import { ServerRegistry } from "./server_registry.ts";

/** A call of a tool whose arguments are sealed. */
export interface ToolCall {
  /** The registered server. */
  readonly serverName: string;
  /** The tool's name on the wire. */
  readonly toolName: string;
  /** The arguments, which are sent as they are. */
  readonly arguments: ExactObject;
  /** The line that calls, as far as the code that calls tells the truth. */
  readonly source?: CallSource | undefined;
}

/** A request for what a server offers beside tools. */
export interface CatalogCall {
  /** The registered server. */
  readonly serverName: string;
  /** What is asked, in the protocol's own names. */
  readonly method: CatalogMethod;
  /** The parameters, in the protocol's own names. */
  readonly params: Readonly<Record<string, unknown>>;
  /** The line that asks, as far as the code that asks tells the truth. */
  readonly source?: CallSource | undefined;
}

/**
 * Runs tools of registered MCP servers, each call after its approval. Disposing it stops the servers.
 *
 * @example
 * ```ts
 * import { ToolRunner } from "@ipybox/ipybox";
 *
 * await using runner = await ToolRunner.start({
 *   servers: { everything: { command: "npx", args: ["-y", "@modelcontextprotocol/server-everything"] } },
 *   approval: "allow",
 * });
 * const result = await runner.run("everything", "get-sum", { a: 1, b: 2 });
 * console.error(result.content);
 * ```
 */
export class ToolRunner implements AsyncDisposable {
  /** The registered servers. */
  readonly registry: ServerRegistry;
  /** Where calls are asked about. */
  readonly channel: ApprovalChannel;
  /** What servers tell while they work: progress, logs, changes of their tools. */
  readonly events: ServerEvents = new ServerEvents();
  /** Where servers' questions are asked. */
  readonly elicitations: ElicitationChannel;

  readonly #trail: AuditTrail;
  readonly #audit: AuditLog | undefined;
  /**
   * Where `${VAR}` in servers' parameters comes from, unless it is the environment and the
   * workspace's `.env` at the time.
   */
  readonly variables: VariableLookup | undefined;

  /**
   * The settings files in the workspace, for sandboxes of registered servers, that were there at the
   * start. Executed code must not change them; newer ones are refused.
   */
  readonly settingsFiles: readonly string[];

  readonly #pool: McpPool;
  readonly #approvals: Approvals;
  readonly #log: Logger;
  readonly #callTimeoutMs: number | undefined;
  readonly #changed = new Set<string>();
  #withinExecution: Within = (work) => work();

  private constructor(
    registry: ServerRegistry,
    found: FoundInWorkspace,
    options: ToolRunnerOptions,
  ) {
    const { variables, settingsFiles, consentFile } = found;
    const { workspace, connectTimeoutMs, login, log = stderrLogger() } = options;
    this.registry = registry;
    this.variables = variables;
    this.settingsFiles = settingsFiles;
    const { approvalTimeoutMs: timeoutMs } = options;
    this.channel = new ApprovalChannel({ timeoutMs, log });
    this.elicitations = new ElicitationChannel({ timeoutMs, log });
    const policy = approvalPolicy(options.approval ?? {});
    this.#approvals = new Approvals({ policy, channel: this.channel, consentFile, log });
    this.#audit = workspace === undefined || options.audit === false
      ? undefined
      : new AuditLog({ workspace, redact: policy.redact, log });
    this.#trail = new AuditTrail(this.#audit);
    this.#log = log;
    this.#callTimeoutMs = options.callTimeoutMs;
    this.#pool = new McpPool({
      registry,
      log,
      maxConcurrentCalls: options.maxConcurrentCalls,
      idleMs: options.serverIdleMs,
      hooks: (serverName) => this.#hooks(serverName, options),
      connect: {
        settingsFiles,
        ...(variables === undefined ? {} : { variables }),
        ...(workspace === undefined ? {} : { workspace }),
        ...(connectTimeoutMs === undefined ? {} : { connectTimeoutMs }),
        ...(login === undefined ? {} : { login }),
      },
    });
  }

  /**
   * Reads the registry. Servers are started by the first call that needs them.
   *
   * @param options The servers, and how calls are approved.
   * @returns The runner.
   * @throws {ConfigError} The registry cannot be read.
   */
  static async start(options: ToolRunnerOptions = {}): Promise<ToolRunner> {
    const { workspace, servers, log = stderrLogger() } = options;
    await loadTelemetry();
    const registry = await ServerRegistry.open({ workspace, servers });
    // A `.env` that is there now is out of reach for executed code, and is read whenever a server
    // starts. Where there is none, code can put one, so none is read.
    const isKnown = options.variables !== undefined;
    const hasDotenv = workspace !== undefined && !isKnown && await hasOwnDotenv(workspace, log);
    const variables = options.variables ??
      (hasDotenv ? undefined : await variableLookup(workspace, { dotenv: false }));
    const settingsFiles = workspace === undefined
      ? []
      : await presentSettings(registry.entries, workspace);
    const { consents = true } = options;
    const consentFolder = typeof consents === "string" ? consents : workspace;
    const consentFile = consentFolder === undefined || consents === false
      ? undefined
      : await ConsentFile.open(consentFolder, log);
    return new ToolRunner(registry, { variables, settingsFiles, consentFile }, options);
  }

  /**
   * The servers that said that their tools changed, sorted: their generated APIs may be out of date
   * until they are registered anew.
   */
  get changedServers(): string[] {
    return [...this.#changed].sort();
  }

  /**
   * Lists a server's tools as they are now, starting the server if it does not run.
   *
   * @param serverName The registered server.
   * @param signal Gives up.
   * @returns The definitions of all its tools, as it gives them, in its order.
   * @throws {ToolCallError} The server cannot be reached or does not give its list.
   */
  async listTools(serverName: string, signal?: AbortSignal): Promise<readonly unknown[]> {
    return await this.#pool.listTools(serverName, signal);
  }

  /**
   * Runs a tool, if the call is approved.
   *
   * @param serverName The registered server.
   * @param toolName The tool's name on the wire.
   * @param args The arguments: anything that JSON can express, integers above 2^53 as `bigint`s.
   * @param options What cancels the call, and who is told of progress.
   * @returns The tool's result. `isError` is set where the tool says that it failed.
   * @throws {ToolCallError} There is no result; its type says why.
   * @throws {TypeError} The arguments are not a JSON object.
   */
  async run(
    serverName: string,
    toolName: string,
    args: Readonly<Record<string, unknown>> = {},
    options: CallToolOptions = {},
  ): Promise<ToolResult> {
    const sealed = sealObject(toExact(args));
    return await this.runCall({ serverName, toolName, arguments: sealed }, options);
  }

  /**
   * Runs a tool whose arguments were sealed before.
   *
   * @param call The call.
   * @param options What cancels the call.
   * @returns The tool's result.
   * @throws {ToolCallError} There is no result; its type says why.
   */
  async runCall(call: ToolCall, options: CallToolOptions = {}): Promise<ToolResult> {
    const { serverName, toolName } = call;
    const { signal, timeoutMs, onProgress } = options;
    const callId = crypto.randomUUID();
    const asked: ApprovalCall = { kind: "tool", callId, ...call };
    const work = async (notes: RequestNotes): Promise<ToolResult> => {
      const { onDecision, onTarget, beforeSending } = notes;
      this.#approvals.refuseDenied(asked, onDecision); // before a server is started for it
      const params = this.#pool.requireRegistered(serverName);
      const tool = await this.#definition(serverName, toolName, signal);
      onTarget(targetHashes(params, tool));
      const options = { signal, onDecision };
      const args = await this.#approvals.authorizeTool(asked, { params, tool }, options);
      await beforeSending();
      this.#requireUnchanged(serverName, params);
      using _running = this.events.track(serverName, callId);
      return await this.#pool.callTool(serverName, toolName, args, {
        signal,
        timeoutMs: shorter(timeoutMs, this.#callTimeoutMs),
        onProgress: this.#progress({ callId, serverName, toolName }, onProgress),
      });
    };
    const failed = ({ isError }: ToolResult) => isError === true;
    return await this.#traced(
      { method: "tools/call", serverName, target: toolName, callId },
      (traced) =>
        this.#record(
          asked,
          (notes) => work(traced(notes)),
          (result) => failed(result) ? "tool_error" : "ok",
        ),
      failed,
    );
  }

  /**
   * Asks a server for a resource, a prompt, a completion, or a list of what it has, if that is
   * approved. Lists, which send nothing of the caller's, are only refused where the policy denies.
   *
   * @param request What is asked.
   * @param options What cancels it.
   * @returns The server's result; a list comes whole, as `items`.
   * @throws {ToolCallError} There is no result; its type says why.
   */
  async catalog(
    request: CatalogCall,
    options: CallToolOptions = {},
  ): Promise<Readonly<Record<string, unknown>>> {
    const { serverName, method, source } = request;
    const { signal } = options;
    const args = sealObject(toExact(request.params));
    const callId = crypto.randomUUID();
    const asked: ApprovalCall = {
      kind: "resource",
      callId,
      serverName,
      toolName: method,
      arguments: args,
      source,
    };
    const work = async ({ onDecision, onTarget, beforeSending }: RequestNotes) => {
      this.#approvals.refuseDenied(asked, onDecision);
      const params = this.#pool.requireRegistered(serverName);
      onTarget(targetHashes(params));
      const deciding = { signal, onDecision };
      const approved = isListMethod(method)
        ? args
        : await this.#approvals.authorizeCatalog(asked, { params, method }, deciding);
      const timeoutMs = shorter(options.timeoutMs, this.#callTimeoutMs);
      const checked = checkCatalogParams(method, approved); // an approver may have edited them
      if (!isListMethod(method)) await beforeSending();
      this.#requireUnchanged(serverName, params);
      return await this.#pool.catalog(serverName, method, checked, { signal, timeoutMs });
    };
    const target = method === "prompts/get" ? String(request.params.name) : undefined;
    return await this.#traced(
      { method, serverName, target, callId },
      (traced) => this.#record(asked, (notes) => work(traced(notes))),
    );
  }

  /**
   * Has a shell command approved. Nothing is run.
   *
   * @param call What is to be approved.
   * @param signal Withdraws the request.
   * @returns The arguments to use, which an approver may have edited.
   * @throws {ToolCallError} It is refused; the type says why.
   */
  async approve(call: ApprovalCall, signal?: AbortSignal): Promise<ExactObject> {
    const record = () =>
      this.#record(
        call,
        ({ onDecision }) => this.#approvals.authorizeShell(call, { signal, onDecision }),
        () => "approved", // how the command ends is not told here
      );
    return await this.#withinExecution(record);
  }

  /**
   * Tells that an execution begins: which code makes the calls from now on, and what the decisions for
   * "this cell" are about. The span that is running is the execution's.
   *
   * @param code The code.
   * @returns Disposing it says that the execution has ended, and forgets what was decided for it.
   */
  enterCell(code: string): Disposable {
    this.#trail.setCode(code); // threads that it leaves go on calling
    this.#withinExecution = captureTrace();
    return this.#approvals.enterCell(code);
  }

  /**
   * Gives a line of the code that is executed.
   *
   * @param line Its number from 1, which may be anything.
   * @returns The line, or `undefined` where there is none of that number.
   */
  sourceAt(line: number): CallSource | undefined {
    return this.#approvals.sourceAt(line);
  }

  /**
   * Registers a server, in the workspace's file where there is one. It takes effect at once.
   *
   * @param serverName Its name.
   * @param params How it is started or reached.
   * @returns Takes it back: what was registered before is so again.
   * @throws {TypeError} The name cannot be a server's.
   * @throws {ConfigError} The parameters make no sense, or the file is no registry.
   */
  async registerServer(serverName: string, params: ServerParams): Promise<() => Promise<void>> {
    const undo = await this.registry.register(serverName, params);
    this.#changed.delete(serverName);
    return undo;
  }

  /**
   * Removes a server, from the workspace's file too, and stops it.
   *
   * @param serverName Its name.
   * @returns Whether it was registered.
   * @throws {ConfigError} The file is no registry.
   */
  async unregisterServer(serverName: string): Promise<boolean> {
    const removed = await this.registry.unregister(serverName);
    await this.#pool.drop(serverName);
    this.#changed.delete(serverName);
    return removed;
  }

  /** Refuses what waits for approval, cancels what runs, stops the servers, reads the registry. */
  async reset(): Promise<void> {
    this.channel.withdrawAll("The tool server was reset");
    this.elicitations.withdrawAll("The tool server was reset");
    await this.#pool.reset();
    await this.registry.reload();
    await this.#approvals.reset();
  }

  /** Refuses what waits for approval and stops the servers. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.channel.withdrawAll("The tool server was stopped");
    this.elicitations.withdrawAll("The tool server was stopped");
    await this.#pool[Symbol.asyncDispose]();
    await this.#audit?.[Symbol.asyncDispose]();
  }

  /** Makes a request within a span that tells what was decided of it. */
  async #traced<T>(
    request: McpRequest,
    work: (traced: (notes: RequestNotes) => RequestNotes) => Promise<T>,
    failed?: (result: T) => boolean,
  ): Promise<T> {
    const params = this.registry.get(request.serverName);
    const run = (span: Span) =>
      work((notes) => ({
        ...notes,
        onDecision: (made) => {
          span.set({ "ipybox.approval.decision": made.decision, "ipybox.approval.by": made.by });
          notes.onDecision(made);
        },
      }));
    return await this.#withinExecution(() => traceMcpRequest({ ...request, params }, run, failed));
  }

  /** What was approved is for the server that it was approved for. */
  #requireUnchanged(serverName: string, params: ServerParams): void {
    const current = this.registry.get(serverName);
    if (current === params || JSON.stringify(current) === JSON.stringify(params)) return;
    const message = `MCP server "${serverName}" was registered anew before it could be called`;
    throw new ToolCallError("cancelled", message);
  }

  /** What the server says of the tool, for whoever decides. A server that does not say may be asked. */
  async #definition(
    serverName: string,
    toolName: string,
    signal: AbortSignal | undefined,
  ): Promise<Tool | undefined> {
    try {
      return await this.#pool.findTool(serverName, toolName, signal);
    } catch (error) {
      if (!(error instanceof ToolCallError) || error.type !== "protocol_error") throw error;
      this.#log.debug(`${serverName}: ${error.message}`);
      return undefined;
    }
  }

  /** Tells whoever called and whoever watches. Without either, the server is not asked for it. */
  #progress(
    call: { callId: string; serverName: string; toolName: string },
    onProgress: CallToolOptions["onProgress"],
  ): CallToolOptions["onProgress"] {
    if (onProgress === undefined && !this.events.watched) return undefined;
    return ({ progress, total, message }: ToolProgress) => {
      this.events.tell({ type: "progress", ...call, progress, total, message });
      onProgress?.({ progress, total, message });
    };
  }

  /** Notes a request in the audit log, and tells whoever follows calls. */
  async #record<T>(
    call: ApprovalCall,
    run: (notes: RequestNotes) => Promise<T>,
    statusOf?: (result: T) => string,
  ): Promise<T> {
    using watch = new CallWatch(this.events, call);
    const result = await watch.run(() =>
      this.#trail.record(
        call,
        (notes) => run({ ...notes, onDecision: (made) => watch.decided(made, notes.onDecision) }),
        statusOf,
      )
    );
    watch.status = statusOf?.(result) ?? "ok";
    return result;
  }

  /** Passes a server's question on, unless the policy denies it. */
  async #elicit(
    serverName: string,
    question: ElicitationQuestion,
    signal: AbortSignal,
  ): Promise<ElicitationAnswer> {
    const source = { serverName, callId: this.events.onlyCall(serverName) };
    const refusal = this.#approvals.refusalOf(source, question);
    if (refusal === undefined) return await this.elicitations.ask(source, question, signal);
    this.#log.debug(`Declined a question of MCP server "${serverName}": ${refusal}`);
    return { action: "decline" };
  }

  #hooks(serverName: string, { sampling, roots }: ToolRunnerOptions): ServerHooks {
    return {
      sample: sampling,
      roots,
      elicit: (question, signal) => this.#elicit(serverName, question, signal),
      onLog: (message) => {
        const callId = this.events.onlyCall(serverName);
        this.events.tell({ type: "log", serverName, callId, ...message });
      },
      onToolsChanged: () => {
        this.#changed.add(serverName);
        this.events.tell({ type: "tools_changed", serverName });
      },
    };
  }
}

/** What a runner finds in its workspace when it starts. */
interface FoundInWorkspace {
  readonly variables: VariableLookup | undefined;
  readonly settingsFiles: readonly string[];
  readonly consentFile: ConsentFile | undefined;
}

function shorter(one: number | undefined, other: number | undefined): number | undefined {
  const shortest = Math.min(one ?? Infinity, other ?? Infinity);
  return shortest === Infinity ? undefined : shortest;
}
