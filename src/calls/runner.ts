import { AuditLog } from "../approval/audit/log.ts";
import { redactArguments } from "../approval/audit/redact.ts";
import { AuditTrail } from "../approval/audit/trail.ts";
import { describeCall } from "../approval/call_text.ts";
import { ApprovalChannel } from "../approval/channel.ts";
import { Consents } from "../approval/consents.ts";
import { ApprovalGate } from "../approval/gate.ts";
import { type CallObserver, CallSpans } from "../approval/observed_call.ts";
import { approvalPolicy } from "../approval/policy.ts";
import { ElicitationChannel } from "../approval/questions.ts";
import type { ApprovalCall } from "../approval/request.ts";
import { ConsentFile } from "../approval/rules/consent_file.ts";
import { patternJudge } from "../approval/rules/patterns.ts";
import { type Logger, stderrLogger } from "../base/log.ts";
import { requirePositive } from "../base/numbers.ts";
import { stage } from "../base/stages.ts";
import { loadTelemetry } from "../base/telemetry.ts";
import type { ApprovalOptions, OwnOptions, ServersOptions } from "../executor/options.ts";
import { statePath } from "../files/workspace_state.ts";
import { type ExactObject, isExactObject, sealObject, toExact } from "../json/exact.ts";
import type { ConnectOptions } from "../mcp/connect.ts";
import type { CallToolOptions } from "../mcp/hooks.ts";
import { type ServerParams, type VariableLookup, variableLookup } from "../mcp/params.ts";
import type { ToolResult } from "../mcp/results.ts";
import { ToolChanges } from "../servers/changes.ts";
import { callEvents, ServerEvents, serverHooks } from "../servers/events.ts";
import { StartApproval } from "../servers/start_approval.ts";
import type { StartEvidence } from "../servers/start_evidence.ts";
import { McpPool } from "../servers/pool.ts";
import { ResultShapes } from "../servers/shapes.ts";
import { ServerRegistry } from "../servers/registry.ts";
import { Calls, type CatalogCall } from "./calls.ts";

/**
 * Runs tools of registered MCP servers, each call once it is approved. Disposing it stops the servers.
 *
 * @example
 * ```ts
 * import { ToolRunner } from "@ipybox/ipybox/tools";
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
  /** Receives the approver of calls. */
  readonly channel: ApprovalChannel;
  /** Reports of servers: progress, logs, changes of their tools. */
  readonly events: ServerEvents = new ServerEvents();
  /** Receives the handler that answers the servers' questions. */
  readonly elicitations: ElicitationChannel;

  /**
   * The source of `${VAR}` in servers' parameters; `undefined` for the environment and the workspace's
   * `.env` whenever a server starts.
   */
  readonly variables: VariableLookup | undefined;

  /** @internal The connections to the servers. */
  readonly pool: McpPool;
  /** @internal Makes the calls. */
  readonly calls: Calls;
  /** @internal The servers whose tools have changed. */
  readonly changes: ToolChanges;
  /** @internal Decides on starts of servers. */
  readonly starts: StartApproval;
  /** @internal Records calls and questions. */
  readonly trail: AuditTrail | undefined;

  readonly #consents: Consents;
  readonly #shapes: ResultShapes | undefined;
  readonly #ownAudit: AuditLog | undefined;

  private constructor(
    registry: ServerRegistry,
    consentFile: ConsentFile | undefined,
    options: SettledOptions,
  ) {
    const { workspace, log, approvalTimeoutMs: timeoutMs } = options;
    this.registry = registry;
    this.variables = options.variables;
    const policy = approvalPolicy(options.approval ?? {});
    this.channel = new ApprovalChannel({ timeoutMs, log });
    this.elicitations = new ElicitationChannel({ timeoutMs, log });
    const patterns = patternJudge({ workspace });
    this.#consents = new Consents({
      store: consentFile,
      patterns: {
        ...patterns,
        propose: (call) => patterns.propose(withoutSecrets(call, policy.redact)),
      },
      describe: (call) => describeCall(withoutSecrets(call, policy.redact)),
      log,
    });
    this.changes = new ToolChanges(log);
    const { audit = true } = options;
    if (audit === true && workspace !== undefined) {
      this.#ownAudit = new AuditLog({ workspace, redact: policy.redact, log });
    }
    const auditLog = audit instanceof AuditLog ? audit : this.#ownAudit;
    this.trail = auditLog && new AuditTrail(auditLog);
    const gate = new ApprovalGate(policy, this.channel, this.#consents);
    const { events, elicitations, changes, trail } = this;
    const parts = { ...options, registry, gate, events, elicitations, changes, trail };
    this.starts = new StartApproval({
      ...parts,
      approve: (call, options) => this.calls.approve(call, options),
    });
    this.pool = new McpPool({
      ...parts,
      starts: this.starts,
      hooks: (serverName) => serverHooks(serverName, parts),
    });
    const observers: CallObserver[] = [new CallSpans(), callEvents(events)];
    if (trail !== undefined) observers.unshift(trail);
    this.#shapes = workspace === undefined ? undefined : new ResultShapes(workspace, log);
    if (this.#shapes !== undefined) observers.push(this.#shapes);
    this.calls = new Calls({ ...parts, pool: this.pool, observers });
  }

  /**
   * Reads the registry. Servers are started by the first call that needs them.
   *
   * @param options The servers, and how calls are approved.
   * @returns The runner.
   * @throws {ConfigError} The registry cannot be read.
   * @throws {RangeError} A time limit or a number is not positive.
   */
  static async start(options: ToolRunnerOptions = {}): Promise<ToolRunner> {
    using _stage = stage("read the registry");
    requirePositive(options, ["approvalTimeoutMs", "connectTimeoutMs"]);
    requirePositive(options, ["callTimeoutMs", "serverIdleMs"]);
    await loadTelemetry();
    const registry = await ServerRegistry.open(options);
    const own: OwnRunnerOptions = options;
    const { workspace, trust, log = stderrLogger() } = own;
    const settled: SettledOptions = {
      ...own,
      log,
      variables: own.variables ??
        (trust === "all" ? await variableLookup(workspace, { trust, log }) : undefined),
    };
    const runner = new ToolRunner(registry, await openConsents(settled), settled);
    await runner.starts.rememberGiven();
    return runner;
  }

  /**
   * Lists a server's current tools, starting the server if necessary.
   *
   * @param serverName The registered server.
   * @param signal Cancels it.
   * @returns The definitions of all its tools, unchanged and in its order.
   * @throws {ToolCallError} The server cannot be reached or does not give its list.
   */
  async listTools(serverName: string, signal?: AbortSignal): Promise<readonly unknown[]> {
    return await this.pool.listTools(serverName, signal);
  }

  /**
   * Runs a tool, if the call is approved.
   *
   * @param serverName The registered server.
   * @param toolName The tool's name on the wire.
   * @param args The arguments: anything that JSON can express, integers above 2^53 as `bigint`s.
   * @param options A signal, a time limit, and a callback for progress.
   * @returns The tool's result. `isError` is set if the tool reports a failure.
   * @throws {ToolCallError} The call has no result; the type says why.
   * @throws {TypeError} The arguments are not a JSON object.
   */
  async run(
    serverName: string,
    toolName: string,
    args: Readonly<Record<string, unknown>> = {},
    options: CallToolOptions = {},
  ): Promise<ToolResult> {
    const sealed = sealObject(toExact(args));
    return await this.calls.callTool({ serverName, toolName, arguments: sealed }, options);
  }

  /**
   * Asks a server for a resource, a prompt, a completion or a list, if that is approved. Lists send no
   * data of the caller's, so they are only refused if the policy denies them.
   *
   * @param request The request.
   * @param options A signal and a time limit.
   * @returns The server's result; a list is complete, as `items`.
   * @throws {ToolCallError} The request has no result; the type says why.
   */
  async catalog(
    request: CatalogCall,
    options: CallToolOptions = {},
  ): Promise<Readonly<Record<string, unknown>>> {
    return await this.calls.catalog(request, options);
  }

  /**
   * Asks for approval of a shell command. Runs nothing.
   *
   * @param call The command.
   * @param signal Withdraws the request.
   * @returns The arguments to use, which an approver may have edited.
   * @throws {ToolCallError} It was refused; the type says why.
   */
  async approve(call: ApprovalCall, signal?: AbortSignal): Promise<ExactObject> {
    return await this.calls.approve(call, { signal });
  }

  /**
   * Registers a server, in the workspace's file if there is a workspace. It takes effect immediately.
   *
   * @param serverName Its name.
   * @param params How it is started or reached.
   * @returns A function that undoes the registration and restores the previous one.
   * @throws {TypeError} The name is not a valid server name.
   * @throws {ConfigError} The parameters are invalid, or the file is not a registry.
   */
  async registerServer(serverName: string, params: ServerParams): Promise<() => Promise<void>> {
    const run = await this.starts.evidence(serverName, params, true);
    return await this.registerStarted(serverName, params, run);
  }

  /** @internal Registers a server that was started with the evidence. */
  async registerStarted(
    serverName: string,
    params: ServerParams,
    run: StartEvidence,
  ): Promise<() => Promise<void>> {
    this.changes.forget(serverName);
    return await this.registry.register(serverName, params, run);
  }

  /**
   * Removes a server, also from the workspace's file, and stops it.
   *
   * @param serverName Its name.
   * @returns Whether it was registered.
   * @throws {ConfigError} The file is not a registry.
   */
  async unregisterServer(serverName: string): Promise<boolean> {
    await this.#shapes?.flush(); // otherwise a later write would bring its shapes back
    const removed = await this.registry.unregister(serverName);
    await this.pool.drop(serverName);
    this.changes.forget(serverName);
    return removed;
  }

  /**
   * Refuses pending approvals, cancels running calls, stops the servers and reads the registry again.
   * Servers that were running are started again in the background, without their earlier state.
   */
  async reset(): Promise<void> {
    this.channel.withdrawAll("The tool server was reset");
    this.elicitations.withdrawAll("The tool server was reset");
    const { running } = this.pool;
    await this.pool.reset();
    await this.registry.reload();
    this.#consents.reset();
    await this.#shapes?.flush();
    this.pool.startAhead(running);
  }

  /** Refuses pending approvals and stops the servers. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.channel.withdrawAll("The tool server was stopped");
    this.elicitations.withdrawAll("The tool server was stopped");
    const followed = this.changes[Symbol.asyncDispose](); // resolves once the servers have stopped
    await this.pool[Symbol.asyncDispose]();
    await followed;
    await this.#shapes?.[Symbol.asyncDispose]();
    await this.#ownAudit?.[Symbol.asyncDispose]();
  }
}

/** The options with their defaults. */
interface SettledOptions extends OwnRunnerOptions {
  log: Logger;
}

async function openConsents(
  { workspace, parentWorkspace: folder = workspace, consents = true, log }: SettledOptions,
): Promise<ConsentFile | undefined> {
  if (folder === undefined || !consents) return undefined;
  if (await statePath(folder) === undefined) return undefined;
  return await ConsentFile.open(folder, log);
}

/** A call without secret arguments, for files that outlive it. */
function withoutSecrets(call: ApprovalCall, names: readonly string[] | undefined): ApprovalCall {
  const args = redactArguments(call.arguments, { names });
  return { ...call, arguments: isExactObject(args) ? args : {} };
}

/** Options of `ToolRunner.start()`. */
export interface ToolRunnerOptions extends ConnectOptions, ApprovalOptions, ServersOptions {}

/** Options that an executor adds. */
export interface OwnRunnerOptions extends ToolRunnerOptions, Pick<OwnOptions, "parentWorkspace"> {}
