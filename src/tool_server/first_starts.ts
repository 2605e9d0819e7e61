import { Mutex } from "../async/mutex.ts";
import type { ApprovalCall } from "../approval/request.ts";
import { ToolCallError } from "../errors.ts";
import { sealObject, toExact } from "../json/exact.ts";
import type { Logger } from "../log.ts";
import { limitedLogger } from "../log_limit.ts";
import type { ServerParams } from "../mcp/server_params.ts";
import type { Approvals } from "./approvals.ts";
import type { CallReporter } from "./call_reporter.ts";
import { launchText } from "./server_facets.ts";
import type { ServerRegistry } from "./server_registry.ts";

/** What {@linkcode FirstStarts} are decided with. */
export interface FirstStartsOptions {
  /** Knows which registrations are the person's own. */
  readonly registry: ServerRegistry;
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
   * changes.
   *
   * @param serverName The server.
   * @param params How it is started or reached.
   * @param signal Withdraws the question.
   * @throws {ToolCallError} It may not.
   */
  async admit(serverName: string, params: ServerParams, signal: AbortSignal): Promise<void> {
    const { registry, approvals, reporter } = this.#options;
    if (registry.isOwn(serverName, params)) return;
    using _turn = await this.#turns.acquire(signal); // one question for all that wait for the server
    if (registry.isOwn(serverName, params)) return;
    const launch = launchText(params);
    const call: ApprovalCall = {
      kind: "change",
      serverName: "ipybox",
      toolName: "start_mcp_server",
      arguments: sealObject(toExact({ server_name: serverName, server_params: params })),
      description: `Starts or reaches this, outside the code's sandbox: ${launch}\n` +
        `The workspace's ${registry.path} names it, but you have not registered it: it may have ` +
        "come with the files here, or code may have written it.",
    };
    // Without the values of variables and headers, which may be secret.
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
    await registry.accept(serverName, params);
  }
}
