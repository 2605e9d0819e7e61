import { ToolCallError } from "../base/errors.ts";
import { type ExactObject, stringifyExact } from "../json/exact.ts";
import { anySignal } from "../base/signals.ts";
import { type ApprovalChannel, type ApprovalWaitOptions, DECIDED } from "./channel.ts";
import { type Cell, Consents, type Facet } from "./consents.ts";
import { isTooLargeToShow, MAX_SHOWN_BYTES } from "./call_text.ts";
import type { ApprovalPolicy } from "./policy.ts";
import type { ApprovalCall, ApprovalResponse, RefusalType } from "./request.ts";

/** What was decided of a call, and by whom. */
export interface GateDecision {
  /** What was decided. */
  readonly decision: "allow" | "deny";
  /** Who decided: `"policy"`, a remembered `"consent"`, `"approver"`, or the reason why nobody did. */
  readonly by: "policy" | "consent" | "approver" | Exclude<RefusalType, "approval_rejected">;
  /** The rule, what is remembered, or the approver's reason. */
  readonly reason?: string;
  /** The arguments that the approver put in place of the call's. */
  readonly edited?: ExactObject;
}

/** Options of {@linkcode ApprovalGate.authorize}. */
export interface AuthorizeOptions extends Omit<ApprovalWaitOptions, "scopes"> {
  /** Gives what a remembered decision is bound to. Without it, server and tool count as unchanging. */
  readonly facets?: () => readonly Facet[];
  /** Told what was decided, before it takes effect. */
  readonly onDecision?: (decision: GateDecision) => void;
}

/** The one way to a decision: the policy first, then, where it says so, what is remembered, then the approver. */
export class ApprovalGate {
  readonly #policy: ApprovalPolicy;
  readonly #channel: ApprovalChannel;
  readonly #consents: Consents;

  constructor(
    policy: ApprovalPolicy,
    channel: ApprovalChannel,
    consents: Consents = new Consents(),
  ) {
    this.#policy = policy;
    this.#channel = channel;
    this.#consents = consents;
  }

  /** Refuses a call that the policy denies whatever else is known of it. */
  refuseDenied(call: ApprovalCall, onDecision?: AuthorizeOptions["onDecision"]): void {
    const { mode, reason } = this.#policy.decide(call);
    if (mode !== "deny") return;
    onDecision?.({ decision: "deny", by: "policy", reason });
    throw denied(call, reason);
  }

  /** Decides a call. */
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
      case "ask":
        return await this.#ask(call, options);
    }
  }

  async #ask(call: ApprovalCall, options: AuthorizeOptions): Promise<ExactObject> {
    const { onDecision, signal } = options;
    const facets = options.facets?.() ?? [];
    const { cell } = this.#consents;
    // A change is not a call of one tool again and again, which a consent would be for.
    const scopes = call.kind === "change" ? [] : this.#consents.scopes;
    for (;;) {
      const found = await this.#consents.recall(call, facets);
      if (found.decision !== undefined) {
        const { decision, rule: reason } = found;
        onDecision?.({ decision, by: "consent", reason });
        if (decision === "allow") return call.arguments;
        throw denied(call, reason);
      }
      if (isTooLargeToShow(call)) {
        onDecision?.({ decision: "deny", by: "approval_unavailable", reason: TOO_LARGE });
        throw refused("approval_unavailable", call, TOO_LARGE);
      }
      // An answer to another request may decide this one too.
      const decided = new AbortController();
      using _watch = this.#consents.watch(async () => {
        // What fails here fails once more where the call is looked at anew, and is told from there.
        const isOver = await this.#consents.recall(call, facets)
          .then(({ decision }) => decision !== undefined, () => true);
        if (isOver) decided.abort(DECIDED);
      });
      const response = await this.#channel.request({ ...call, changes: found.changes }, {
        signal: anySignal(signal, decided.signal),
        scopes,
        check: options.check,
      });
      const cancelled = !response.accepted && response.type === "cancelled";
      if (cancelled && decided.signal.aborted && !signal?.aborted) continue;
      return await this.#obey(call, response, { facets, cell, onDecision });
    }
  }

  async #obey(
    call: ApprovalCall,
    response: ApprovalResponse,
    { facets, cell, onDecision }: {
      readonly facets: readonly Facet[];
      readonly cell: Cell | undefined;
      readonly onDecision: AuthorizeOptions["onDecision"];
    },
  ): Promise<ExactObject> {
    const { remember } = response;
    if (!response.accepted) {
      const { type, reason } = response;
      onDecision?.({
        decision: "deny",
        by: type === "approval_rejected" ? "approver" : type,
        reason,
      });
      if (remember !== undefined) {
        await this.#consents.remember({ call, facets, decision: "deny", reason }, remember, cell);
      }
      throw refused(type, call, reason);
    }
    const edited = stringifyExact(response.arguments) === stringifyExact(call.arguments)
      ? undefined
      : response.arguments;
    const allowed = edited === undefined ? call : { ...call, arguments: edited };
    // What the policy denies is denied for approvers too.
    if (edited !== undefined) this.refuseDenied(allowed, onDecision);
    onDecision?.({ decision: "allow", by: "approver", edited });
    if (remember !== undefined) {
      await this.#consents.remember({ call: allowed, facets, decision: "allow" }, remember, cell);
    }
    return response.arguments;
  }
}

function denied(call: ApprovalCall, reason = "Denied by the approval policy"): ToolCallError {
  return refused("approval_rejected", call, reason);
}

function refused(type: RefusalType, call: ApprovalCall, reason: string): ToolCallError {
  const name = `${call.serverName}.${call.toolName}`;
  const message = `${name} ${WORDS[type]}: ${reason}`;
  return new ToolCallError(type, message, { reason });
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
