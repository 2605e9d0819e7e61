import { Mutex } from "../async/mutex.ts";
import type { ApprovalCall } from "../approval/request.ts";
import { ConfigError, ToolCallError } from "../errors.ts";
import { sealObject, toExact } from "../json/exact.ts";
import type { Logger } from "../log.ts";
import { limitedLogger } from "../log_limit.ts";
import { startFailure } from "../mcp/call_errors.ts";
import type { ServerParams, VariableLookup } from "../mcp/server_params.ts";
import { type StartEvidence, startEvidence } from "../mcp/start_evidence.ts";
import type { Approvals } from "./approvals.ts";
import type { CallReporter } from "./call_reporter.ts";
import { launchText } from "./server_facets.ts";
import type { ServerRegistry } from "./server_registry.ts";

/** What {@linkcode FirstStarts} are decided with. */
export interface FirstStartsOptions {
  /** Knows which registrations are the person's own. */
  readonly registry: ServerRegistry;
  /** The workspace that the registry is of. */
  readonly workspace: string | undefined;
  /** Where `${VAR}` comes from, instead of the environment and the workspace's `.env`. */
  readonly variables: VariableLookup | undefined;
  /** Decides on the others. */
  readonly approvals: Approvals;
  /** Told of what was decided. */
  readonly reporter: CallReporter;
  /** Told of servers that nobody could be asked about. */
  readonly log: Logger;
}

/**
 * Lets servers be started that the person has registered, and asks about others: a registry may have
 * come with a repository, or may have been written by code.
 */
export class FirstStarts {
  readonly #options: FirstStartsOptions;
  readonly #log: Logger;
  readonly #turns = new Mutex();

  /** @param options Who decides. */
  constructor(options: FirstStartsOptions) {
    this.#options = options;
    this.#log = limitedLogger(options.log); // code can call such a server as often as it likes
  }

  /**
   * Decides whether a server may be started. A yes is remembered, and counts until its registration
   * changes, or what that refers to: variables of the `.env`, settings of its sandbox, files.
   */
  async admit(serverName: string, params: ServerParams, signal: AbortSignal): Promise<void> {
    const { registry, approvals, reporter } = this.#options;
    if (registry.isOwn(serverName, params)) return;
    using _turn = await this.#turns.acquire(signal); // one question for all that wait for the server
    const evidence = await this.#evidence(serverName, params);
    if (registry.isAccepted(serverName, evidence)) return;
    const call: ApprovalCall = {
      kind: "change",
      serverName: "ipybox",
      toolName: "start_mcp_server",
      arguments: sealObject(toExact({ server_name: serverName, ...shownOf(evidence) })),
      description: `Starts or reaches this, outside the code's sandbox: ` +
        `${launchText(evidence.params)}\n` +
        `The workspace's ${registry.path} names it, but you have not registered it: it may have ` +
        "come with the files here, or code may have written it. Only what your own environment fills " +
        "in still stands as ${VAR}.",
    };
    // Without the values of variables and headers, which may be secret.
    const launch = launchText(params);
    const noted = sealObject(toExact({ server_name: serverName, server: launch }));
    try {
      await reporter.report(
        { ...call, arguments: noted },
        ({ onDecision }) => approvals.authorizeStart(call, { signal, onDecision }),
        () => "approved",
      );
    } catch (error) {
      if (!(error instanceof ToolCallError) || error.type === "cancelled") throw error;
      this.#log.warn(`MCP server "${serverName}" was not started: ${launch}`);
      const { reason = error.message } = error.details;
      const message = `MCP server "${serverName}" was not started: ${reason}. It is in the ` +
        "workspace's registry, but the user has not registered it. They can look at it by " +
        "`ipybox servers`, and register it by `ipybox register`";
      throw new ToolCallError(error.type, message, { reason }, { cause: error });
    }
    await registry.accept(serverName, evidence);
  }

  /** What is asked about. What cannot be started is not. */
  async #evidence(serverName: string, params: ServerParams): Promise<StartEvidence> {
    const { workspace, variables } = this.#options;
    try {
      return await startEvidence(serverName, params, { workspace, variables, log: this.#log });
    } catch (cause) {
      if (!(cause instanceof ConfigError)) throw cause;
      this.#log.warn(cause.message);
      const message = startFailure(serverName, params, cause);
      throw new ToolCallError("server_unreachable", message, {}, { cause });
    }
  }
}

function shownOf({ params, settings, files }: StartEvidence): Readonly<Record<string, unknown>> {
  return {
    server_params: params,
    ...(settings === undefined ? {} : { sandbox_settings: settings }),
    ...(Object.keys(files).length === 0 ? {} : { files }),
  };
}
