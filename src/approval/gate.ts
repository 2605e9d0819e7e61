import { ToolCallError } from "../base/errors.ts";
import { type ExactObject, stringifyExact } from "../json/exact.ts";
import { anySignal } from "../base/signals.ts";
import type { ApprovalChannel, ApprovalWaitOptions } from "./channel.ts";
import { DECIDED, type RefusalType } from "./question_queue.ts";
import { type Cell, Consents, type FingerprintPart } from "./consents.ts";
import { isTooLargeToShow, MAX_SHOWN_BYTES } from "./call_text.ts";
import { type Pattern, patternText } from "./pattern.ts";
import type { ApprovalPolicy } from "./policy.ts";
import type { ApprovalCall, ApprovalResponse } from "./request.ts";

/** The decision on a call, and who made it. */
export interface GateDecision {
  readonly decision: "allow" | "deny";
  /** Who decided: `"policy"`, a remembered `"consent"`, `"approver"`, or the reason why nobody did. */
  readonly by: "policy" | "consent" | "approver" | Exclude<RefusalType, "approval_rejected">;
  /** The rule, the consent, or the approver's reason. */
  readonly reason?: string;
  /** The arguments that the approver edited. */
  readonly edited?: ExactObject;
}

/** Options of {@linkcode ApprovalGate.decide}. */
export interface DecideOptions extends Omit<ApprovalWaitOptions, "scopes" | "pattern" | "taken"> {
  /** Returns the fingerprint of server and tool that consents are bound to; without it, neither can change. */
  readonly fingerprint?: () => readonly FingerprintPart[];
  /** A person's earlier decision on this same call, which could not be sent at the time. */
  readonly earlier?: GateDecision | undefined;
}

/**
 * Decides on calls: by the policy or, if it says `"ask"`, by a remembered decision or the approver.
 */
export class ApprovalGate {
  /** The remembered decisions. */
  readonly consents: Consents;
  readonly #policy: ApprovalPolicy;
  readonly #channel: ApprovalChannel;

  constructor(
    policy: ApprovalPolicy,
    channel: ApprovalChannel,
    consents: Consents = new Consents(),
  ) {
    this.#policy = policy;
    this.#channel = channel;
    this.consents = consents;
  }

  /** Returns a refusal if the policy denies the call. */
  judge(call: ApprovalCall): GateDecision | undefined {
    const { mode, reason } = this.#policy.decide(call);
    return mode === "deny" ? { decision: "deny", by: "policy", reason } : undefined;
  }

  async decide(call: ApprovalCall, options: DecideOptions = {}): Promise<GateDecision> {
    const { mode, reason, mayBeDenied = false } = this.#policy.decide(call);
    const { earlier } = options;
    if (earlier !== undefined && mode !== "deny") return await this.#again(call, earlier, options);
    // Code may have written the changed text, so only a person can allow it, not a mode or rule.
    const isAsked = mode === "ask" || call.kind === "change" && mode === "allow";
    if (!isAsked) return { decision: mode, by: "policy", reason };
    return await this.#ask(call, { ...options, mayBeDenied });
  }

  /** Repeats an earlier decision, unless the call that it allows has been denied since. */
  async #again(
    call: ApprovalCall,
    { edited, ...decision }: GateDecision,
    { fingerprint }: DecideOptions,
  ): Promise<GateDecision> {
    const allowed = edited === undefined ? call : { ...call, arguments: edited };
    const found = await this.consents.recall(allowed, fingerprint?.() ?? []);
    if (found.decision === "deny") return { decision: "deny", by: "consent", reason: found.rule };
    if (edited === undefined) return decision;
    return this.judge(allowed) ?? { ...decision, edited };
  }

  async #ask(
    call: ApprovalCall,
    { fingerprint: fingerprintOf, signal, check, mayBeDenied }: DecideOptions & {
      readonly mayBeDenied: boolean;
    },
  ): Promise<GateDecision> {
    const fingerprint = fingerprintOf?.() ?? [];
    const recall = () => this.consents.recall(call, fingerprint, { exactly: mayBeDenied });
    const { cell } = this.consents;
    // Consents are for repeated calls of a tool, which changes are not.
    const scopes = call.kind === "change" ? [] : this.consents.scopes;
    let pattern: Pattern | undefined;
    for (;;) {
      const found = await recall();
      if (found.decision !== undefined) {
        return { decision: found.decision, by: "consent", reason: found.rule };
      }
      if (isTooLargeToShow(call)) {
        return { decision: "deny", by: "approval_unavailable", reason: TOO_LARGE };
      }
      // An answer to another request may also decide this one.
      const decided = new AbortController();
      using _watch = this.consents.watch(async (consent) => {
        if (!this.consents.isFor(consent, call)) return;
        // A failure here repeats in the next lookup, which reports it.
        const isOver = await recall()
          .then(({ decision }) => decision !== undefined, () => true);
        if (isOver) decided.abort(DECIDED);
      });
      if (scopes.length > 0) pattern ??= this.consents.propose(call);
      using taken = new DisposableStack();
      const response = await this.#channel.request({ ...call, changes: found.changes }, {
        signal: anySignal(signal, decided.signal),
        scopes,
        pattern: pattern && patternText(pattern),
        check,
        taken: new Promise((resolve) => taken.defer(resolve)),
      });
      const cancelled = !response.accepted && response.type === "cancelled";
      if (cancelled && decided.signal.aborted && !signal?.aborted) continue;
      return await this.#take(call, response, { fingerprint, cell, pattern });
    }
  }

  /** Converts an approver's answer to a decision, and remembers it if requested. */
  async #take(
    call: ApprovalCall,
    response: ApprovalResponse,
    { fingerprint, cell, pattern }: {
      readonly fingerprint: readonly FingerprintPart[];
      readonly cell: Cell | undefined;
      readonly pattern: Pattern | undefined;
    },
  ): Promise<GateDecision> {
    const { remember } = response;
    if (!response.accepted) {
      const { type, reason } = response;
      if (remember !== undefined) {
        const denied = { call, fingerprint, decision: "deny", reason, pattern } as const;
        await this.consents.remember(denied, remember, cell);
      }
      return { decision: "deny", by: type === "approval_rejected" ? "approver" : type, reason };
    }
    const edited = stringifyExact(response.arguments) === stringifyExact(call.arguments)
      ? undefined
      : response.arguments;
    const allowed = edited === undefined ? call : { ...call, arguments: edited };
    // The policy applies to edited calls too.
    const denial = edited === undefined ? undefined : await this.judge(allowed);
    if (denial !== undefined) return denial;
    if (remember !== undefined) {
      const accepted = { call: allowed, fingerprint, decision: "allow", pattern } as const;
      await this.consents.remember(accepted, remember, cell);
    }
    return { decision: "allow", by: "approver", edited };
  }
}

/** The error for the code whose call was refused. */
export function refusalOf(call: ApprovalCall, decision: GateDecision): ToolCallError {
  const { by, reason = "Denied by the approval policy" } = decision;
  const type = refusalType(by);
  const message = `${call.serverName}.${call.toolName} ${WORDS[type]}: ${reason}`;
  return new ToolCallError(type, message, { reason });
}

/** The error type of a refused call. */
export function refusalType(by: GateDecision["by"]): RefusalType {
  return by === "policy" || by === "consent" || by === "approver" ? "approval_rejected" : by;
}

const TOO_LARGE = `its arguments are longer than ${MAX_SHOWN_BYTES / 1024} KiB as JSON, ` +
  "too large to be shown for approval: write them to a file and pass its path, or have a policy " +
  "rule allow the tool";

const WORDS = {
  approval_rejected: "was refused",
  approval_timeout: "was not approved in time",
  approval_unavailable: "could not be approved",
  cancelled: "was cancelled",
} as const;
