import type { DecideOptions } from "../approval/gate.ts";
import type { ApprovalCall } from "../approval/request.ts";
import { ConfigError, ToolCallError } from "../base/errors.ts";
import { limitedLogger, type Logger } from "../base/log.ts";
import { Mutex } from "../base/mutex.ts";
import { sealObject, toExact } from "../json/exact.ts";
import { startFailure } from "../mcp/start_errors.ts";
import type { ConnectOptions } from "../mcp/connect.ts";
import type { ServerParams } from "../mcp/params.ts";
import { launchText } from "./fingerprint.ts";
import { boundSettings, type ServerRegistry } from "./registry.ts";
import { reachText, type StartEvidence, startEvidence, unaskedStart } from "./start_evidence.ts";

/** Options of {@linkcode StartApproval}. */
interface StartApprovalOptions extends Pick<ConnectOptions, "workspace" | "variables"> {
  /** Knows which servers the user registered. */
  readonly registry: ServerRegistry;
  /** Asks for approval of the others. */
  readonly approve: (
    call: ApprovalCall,
    options: Pick<DecideOptions, "signal" | "check"> & { readonly noted: ApprovalCall },
  ) => Promise<unknown>;
  /** Receives reports of servers that were not started. */
  readonly log: Logger;
}

/** Admits the user's servers, and asks about what a repository or code may have added or changed. */
export class StartApproval {
  readonly #options: StartApprovalOptions;
  readonly #log: Logger;
  readonly #turns = new Mutex();

  constructor(options: StartApprovalOptions) {
    this.#options = options;
    this.#log = limitedLogger(options.log); // code can trigger these messages at will
  }

  /**
   * Throws if a server may not be started. Returns the evidence to start it with. A yes is
   * remembered until the evidence changes.
   */
  async approveStart(
    serverName: string,
    params: ServerParams,
    signal: AbortSignal,
  ): Promise<StartEvidence> {
    const { registry } = this.#options;
    const isOwn = registry.isOwn(serverName, params);
    // Without a registry file, the approver may be the very client that wants the server started.
    if (!isOwn && registry.path === undefined) {
      throw new ToolCallError("unknown_server", `MCP server "${serverName}" is not registered`);
    }
    using _turn = await this.#turns.acquire(signal); // one question for all callers of the server
    for (;;) { // what was shown may have changed meanwhile
      const evidence = await this.#evidence(serverName, params, isOwn);
      if (isOwn && registry.isUnchanged(serverName, evidence)) return evidence;
      if (!isOwn && registry.isAccepted(serverName, evidence)) return evidence;
      if (registry.path === undefined) {
        const message =
          `MCP server "${serverName}" was not started: ${RUNS_OTHER} the session began`;
        throw new ToolCallError("server_unreachable", message);
      }
      await this.#ask([serverName, params], evidence, { isOwn, signal });
      await (isOwn ? registry.keep(serverName, evidence) : registry.accept(serverName, evidence));
    }
  }

  /** Asks about a start. Throws unless a person allows it. */
  async #ask(
    [serverName, params]: readonly [string, ServerParams],
    evidence: StartEvidence,
    { isOwn, signal }: { readonly isOwn: boolean; readonly signal: AbortSignal },
  ): Promise<void> {
    const { registry, workspace, approve } = this.#options;
    const reach = workspace && reachText(serverName, evidence, workspace);
    const change = registry.changeOf(serverName, params, evidence);
    const call: ApprovalCall = {
      kind: "change",
      serverName: "ipybox",
      toolName: "start_mcp_server",
      arguments: sealObject(toExact({
        server_name: serverName,
        ...shownOf(evidence, isOwn),
        ...(change && { since_accepted: { old_text: change.before, new_text: change.now } }),
      })),
      description: `Starts or connects to this, outside the code's sandbox: ` +
        `${launchText(evidence.params)}\n` + (isOwn ? CHANGED : unregistered(registry.path)) +
        (reach === undefined ? "" : ` ${reach}.`) +
        " Only variables from your own environment are shown as ${VAR}.",
    };
    // Without the values of variables and headers, which may be secret.
    const launch = launchText(params);
    const noted = sealObject(toExact({ server_name: serverName, server: launch }));
    const check = () => "it can only be started as registered";
    try {
      await approve(call, { noted: { ...call, arguments: noted }, check, signal });
    } catch (error) {
      if (!(error instanceof ToolCallError) || error.type === "cancelled") throw error;
      this.#log.warn(`MCP server "${serverName}" was not started: ${launch}`);
      const { reason = error.message } = error.details;
      const why = isOwn
        ? `I${RUNS_OTHER.slice(1)} it was registered`
        : "It is in the workspace's registry, but the user has not registered it";
      const remedy = registry.isGiven(serverName, params)
        ? "" // by the application, whose approver decides
        : " The user can review and accept it with `ipybox trust`";
      const message = `MCP server "${serverName}" was not started: ${reason}. ${why}.${remedy}`;
      throw new ToolCallError(error.type, message, { reason }, { cause: error });
    }
  }

  /** Remembers what the application's servers run, before code can change it, from their first session on. */
  async rememberGiven(): Promise<void> {
    const { registry } = this.#options;
    for (const [name, params] of registry.unseen) {
      try {
        await registry.keepFirst(name, await this.evidence(name, params, true));
      } catch (error) {
        if (!(error instanceof ConfigError)) throw error; // starting it reports this
      }
    }
  }

  /** Finds the evidence to start a server with; `undefined` if a person must be asked first. */
  async unasked(serverName: string, params: ServerParams): Promise<StartEvidence | undefined> {
    const { registry, workspace, variables } = this.#options;
    const options = { workspace, variables, log: this.#log };
    return await unaskedStart(registry, [serverName, params], options);
  }

  /** The evidence that a question about a start shows, and that a registration is bound to. */
  async evidence(
    serverName: string,
    params: ServerParams,
    isOwn: boolean,
  ): Promise<StartEvidence> {
    const { workspace, variables } = this.#options;
    return await startEvidence(serverName, params, { workspace, variables, isOwn, log: this.#log });
  }

  /** Like {@linkcode evidence}, but reports a server that cannot be started as a failed call. */
  async #evidence(
    serverName: string,
    params: ServerParams,
    isOwn: boolean,
  ): Promise<StartEvidence> {
    try {
      return await this.evidence(serverName, params, isOwn);
    } catch (cause) {
      if (!(cause instanceof ConfigError)) throw cause;
      this.#log.warn(cause.message);
      const message = startFailure(serverName, params, cause);
      throw new ToolCallError("server_unreachable", message, {}, { cause });
    }
  }
}

const RUNS_OTHER = "its files in the workspace, or its sandbox settings, have changed since";

const CHANGED =
  "It is registered, and its files in the workspace, or the settings of its sandbox, have changed " +
  "since: you, a tool of yours, or a repository may have changed them.";

function unregistered(path: string | undefined): string {
  return `The workspace's ${path} names it, but you have not registered it: it may have come with ` +
    "these files, or code may have written it.";
}

function shownOf(evidence: StartEvidence, isOwn: boolean): Readonly<Record<string, unknown>> {
  const { params, files } = evidence;
  const settings = isOwn ? boundSettings(evidence) : evidence.settings?.text;
  return {
    server_params: params,
    ...(settings == null ? {} : { sandbox_settings: settings }),
    ...(Object.keys(files).length === 0 ? {} : { files }),
  };
}
