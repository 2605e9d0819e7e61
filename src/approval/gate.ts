import { ToolCallError } from "../errors.ts";
import { type ExactObject, stringifyExact } from "../json/exact.ts";
import type { ApprovalChannel, ApprovalWaitOptions } from "./channel.ts";
import type { ApprovalPolicy } from "./policy.ts";
import type { ApprovalCall, RefusalType } from "./request.ts";

/** What was decided of a call, and by whom. */
export interface GateDecision {
  /** What was decided. */
  readonly decision: "allow" | "deny";
  /** Who decided: `"policy"`, `"approver"`, or the reason why nobody did. */
  readonly by: "policy" | "approver" | Exclude<RefusalType, "approval_rejected">;
  /** The rule, or the approver's reason. */
  readonly reason?: string | undefined;
  /** The arguments that the approver put in place of the call's. */
  readonly edited?: ExactObject | undefined;
}

/** Options of {@linkcode ApprovalGate.authorize}. */
export interface AuthorizeOptions extends ApprovalWaitOptions {
  /** Told what was decided, before it takes effect. */
  readonly onDecision?: ((decision: GateDecision) => void) | undefined;
}

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
   * @param onDecision Told of the refusal.
   * @throws {ToolCallError} The policy denies it.
   */
  refuseDenied(call: ApprovalCall, onDecision?: AuthorizeOptions["onDecision"]): void {
    const { mode, reason } = this.#policy.decide(call);
    if (mode !== "deny") return;
    onDecision?.({ decision: "deny", by: "policy", reason });
    throw denied(call, reason);
  }

  /**
   * Decides a call.
   *
   * @param call The call.
   * @param options What withdraws a pending request, and who is told of the decision.
   * @returns The arguments to use: those of the call, or those that an approver put in their place.
   * @throws {ToolCallError} It is refused; the type and the message say why.
   */
  async authorize(call: ApprovalCall, options: AuthorizeOptions = {}): Promise<ExactObject> {
    const { onDecision } = options;
    const { mode, reason } = this.#policy.decide(call);
    switch (mode) {
      case "allow":
        onDecision?.({ decision: "allow", by: "policy", reason });
        return call.arguments;
      case "deny":
        onDecision?.({ decision: "deny", by: "policy", reason });
        throw denied(call, reason);
      case "ask": {
        const response = await this.#channel.request(call, options);
        if (!response.accepted) {
          const by = response.type === "approval_rejected" ? "approver" : response.type;
          onDecision?.({ decision: "deny", by, reason: response.reason });
          throw refused(response.type, call, response.reason);
        }
        const edited = stringifyExact(response.arguments) === stringifyExact(call.arguments)
          ? undefined
          : response.arguments;
        // What the policy denies is denied for approvers too.
        if (edited !== undefined) this.refuseDenied({ ...call, arguments: edited }, onDecision);
        onDecision?.({ decision: "allow", by: "approver", edited });
        return response.arguments;
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
