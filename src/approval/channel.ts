import { startSpan } from "../base/telemetry.ts";
import { QuestionQueue } from "./question_queue.ts";
import {
  type ApprovalCall,
  ApprovalRequest,
  type ApprovalRequestOptions,
  type ApprovalResponse,
} from "./request.ts";

/** Receives each request and decides it, immediately or later. */
export type Approver = (request: ApprovalRequest) => void | Promise<void>;

/** Options of {@linkcode ApprovalChannel.request}. */
export interface ApprovalWaitOptions
  extends Pick<ApprovalRequestOptions, "scopes" | "pattern" | "check"> {
  /** Withdraws the request when its call ends. */
  signal?: AbortSignal;
  /** The approver to ask instead of the attached one. */
  approver?: Approver;
  /** Resolves once the decision also counts for the other requests that it decides. */
  taken?: Promise<void>;
}

/**
 * Passes calls that need approval to the attached approver or, without one, to the fallback.
 * Watchers can decide, too: the first decision counts.
 *
 * It fails closed: if there is no approver or fallback, the time is up, or the approver is detached
 * or throws, the call is refused with the reason.
 *
 * @example
 * ```ts
 * import { ApprovalChannel } from "@ipybox/ipybox/approval";
 *
 * const channel = new ApprovalChannel({ timeoutMs: 60_000 });
 * using _approver = channel.attach((request) => void request.reject("not today"));
 * const answer = await channel.request({
 *   kind: "shell",
 *   serverName: "ipybox",
 *   toolName: "shell",
 *   arguments: { cmd: "ls" },
 * });
 * console.error(answer.accepted); // false
 * ```
 */
export class ApprovalChannel extends QuestionQueue<ApprovalRequest, ApprovalResponse> {
  /**
   * Asks for a decision.
   *
   * @param call The call to decide on.
   * @param options What withdraws the request, and how it can be decided.
   * @returns The decision, or why nobody made one. Never rejects.
   */
  async request(call: ApprovalCall, options: ApprovalWaitOptions = {}): Promise<ApprovalResponse> {
    using span = startSpan("approval", { attributes: { "ipybox.approval.kind": call.kind } });
    const { signal, approver: instead, scopes, pattern, check, taken } = options;
    const onAnswer = async () => {
      await taken; // or the approver would be asked about calls that this decision covers
      return true;
    };
    const request = new ApprovalRequest(call, { scopes, pattern, check, onAnswer });
    const response = await this.wait(request, { signal, instead });
    span.set({
      "ipybox.approval.decision": response.accepted ? "allow" : "deny",
      ...(response.accepted ? {} : { "ipybox.approval.refusal": response.type }),
    });
    return response;
  }
}
