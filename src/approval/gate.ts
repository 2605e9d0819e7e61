import { ToolCallError } from "../errors.ts";
import type { ExactObject } from "../json/exact.ts";
import type { ApprovalChannel, ApprovalWaitOptions } from "./channel.ts";
import type { ApprovalPolicy } from "./policy.ts";
import type { ApprovalCall, RefusalType } from "./request.ts";

/** The one way to a decision: the policy first, then, where it says so, the approver. */
export class ApprovalGate {
  readonly #policy: ApprovalPolicy;
  readonly #channel: ApprovalChannel;

  /**
   * @param policy Says which calls need asking.
   * @param channel Where they are asked about.
   */
  constructor(policy: ApprovalPolicy, channel: ApprovalChannel) {
    this.#policy = policy;
    this.#channel = channel;
  }

  /**
   * Refuses a call that the policy denies whatever else is known of it.
   *
   * @param call The call, without the server's annotations.
   * @throws {ToolCallError} The policy denies it.
   */
  refuseDenied(call: ApprovalCall): void {
    const { mode, reason } = this.#policy.decide(call);
    if (mode === "deny") throw denied(call, reason);
  }

  /**
   * Decides a call.
   *
   * @param call The call.
   * @param options What withdraws a pending request.
   * @returns The arguments to use: those of the call, or those that an approver put in their place.
   * @throws {ToolCallError} It is refused; the type and the message say why.
   */
  async authorize(call: ApprovalCall, options: ApprovalWaitOptions = {}): Promise<ExactObject> {
    const { mode, reason } = this.#policy.decide(call);
    switch (mode) {
      case "allow":
        return call.arguments;
      case "deny":
        throw denied(call, reason);
      case "ask": {
        const response = await this.#channel.request(call, options);
        if (response.accepted) return response.arguments;
        throw refused(response.type, call, response.reason);
      }
    }
  }
}

function denied(call: ApprovalCall, reason = "Denied by the approval policy"): ToolCallError {
  return refused("approval_rejected", call, reason);
}

function refused(type: RefusalType, call: ApprovalCall, reason: string): ToolCallError {
  const name = `${call.serverName}.${call.toolName}`;
  const message = `Approval request for ${name} ${WORDS[type]}: ${reason}`;
  return new ToolCallError(type, message, { reason });
}

const WORDS = {
  approval_rejected: "rejected",
  approval_timeout: "expired",
  approval_unavailable: "failed",
  cancelled: "withdrawn",
} as const;
