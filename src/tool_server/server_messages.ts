import type { Logger } from "../log.ts";
import type { ElicitationAnswer, ElicitationQuestion } from "../mcp/elicitation.ts";
import type { ServerHooks } from "../mcp/server_hooks.ts";
import type { Approvals } from "./approvals.ts";
import type { ElicitationChannel } from "./elicitation_channel.ts";
import type { ServerEvents } from "./server_events.ts";
import type { ToolChanges } from "./tool_changes.ts";
import type { ToolRunnerOptions } from "./tool_runner_options.ts";

/** Who takes what servers say. */
export interface ServerMessagesOptions extends Pick<ToolRunnerOptions, "sampling" | "roots"> {
  /** Told of logs and of tools that changed. */
  readonly events: ServerEvents;
  /** Told of tools that changed, and of servers that start. */
  readonly changes: ToolChanges;
  /** Where questions are asked. */
  readonly elicitations: ElicitationChannel;
  /** Says which questions are declined without asking. */
  readonly approvals: Approvals;
  /** Told of those. */
  readonly log: Logger;
}

/** Takes what servers tell and ask of their own accord, and brings it to those whom it is for. */
export class ServerMessages {
  readonly #options: ServerMessagesOptions;

  /** @param options Who takes what they say. */
  constructor(options: ServerMessagesOptions) {
    this.#options = options;
  }

  /** Makes what a connection to a server needs. */
  hooks(serverName: string): ServerHooks {
    const { events, changes, sampling, roots } = this.#options;
    return {
      sample: sampling,
      roots,
      elicit: (question, signal) => this.#elicit(serverName, question, signal),
      onLog: (message) => {
        const callId = events.onlyCall(serverName);
        events.tell({ type: "log", serverName, callId, ...message });
      },
      onStarted: () => changes.started(serverName),
      onToolsChanged: () => {
        changes.add(serverName);
        events.tell({ type: "tools_changed", serverName });
      },
    };
  }

  /** Passes a server's question on, unless the policy denies it. */
  async #elicit(
    serverName: string,
    question: ElicitationQuestion,
    signal: AbortSignal,
  ): Promise<ElicitationAnswer> {
    const { events, elicitations, approvals, log } = this.#options;
    const source = { serverName, callId: events.onlyCall(serverName) };
    const refusal = approvals.refusalOf(source, question);
    if (refusal === undefined) return await elicitations.ask(source, question, signal);
    log.debug(`Declined a question of MCP server "${serverName}": ${refusal}`);
    return { action: "decline" };
  }
}
