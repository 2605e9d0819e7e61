import type { ApprovalChannel, ApprovalWaitOptions } from "./channel.ts";
import type { ApprovalPolicy } from "./policy.ts";
import type { ApprovalCall, ApprovalResponse } from "./request.ts";

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
   * Decides a call.
   *
   * @param call The call.
   * @param options What withdraws a pending request.
   * @returns The decision. Only `accepted: true` lets the call run.
   */
  async decide(call: ApprovalCall, options: ApprovalWaitOptions = {}): Promise<ApprovalResponse> {
    const { mode, reason = "Denied by the approval policy" } = this.#policy.decide(call);
    switch (mode) {
      case "allow":
        return { accepted: true, arguments: call.arguments };
      case "deny":
        return { accepted: false, type: "approval_rejected", reason };
      case "ask":
        return await this.#channel.request(call, options);
    }
  }
}
