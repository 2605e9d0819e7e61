import { type GateDecision, refusalType } from "../../approval/gate.ts";
import { ObservedCall } from "../../approval/observed_call.ts";
import type { ApprovalCall } from "../../approval/request.ts";
import { ToolCallError } from "../../base/errors.ts";
import { sealObject, toExact } from "../../json/exact.ts";
import { abilitiesOf } from "../client_abilities.ts";
import type { InputRequiredResult } from "../sdk.ts";
import type { ToolRequest } from "../tool.ts";

interface Change {
  readonly tool: string;
  /** Its parameters, normalized. */
  readonly parameters: Readonly<Record<string, unknown>>;
  /** Recorded in the audit log instead of the parameters, if these may contain secrets. */
  readonly noted?: Readonly<Record<string, unknown>>;
  /** The question for the user; absent if nobody needs to be asked. */
  readonly question?: ChangeQuestion;
}

/** A change as the user sees it. */
interface ChangeQuestion {
  /** The change, with all parameters. */
  readonly description: string;
  /** The change in a few words, such as `Registering the server "x"`. */
  readonly summary: string;
  /** How the user can make the change without the client. */
  readonly byHand: string;
  /** Describes the change, if the parameters do not. */
  readonly effect?: string;
}

/** The decision, and the error for the client if it is negative; or the question for the client's user. */
type Decided =
  | { readonly decision: GateDecision; readonly refusal?: ToolCallError }
  | { readonly decision: undefined; readonly asked: InputRequiredResult };

/** Makes a change once it is approved and recorded in the audit log. */
export async function makeChange<T>(
  change: Change,
  request: ToolRequest,
  make: () => Promise<T>,
): Promise<T | InputRequiredResult> {
  const decided = await decide(change, request);
  if (decided.decision === undefined) return decided.asked;
  const { decision, refusal } = decided;
  const noted = callOf(change, change.noted ?? change.parameters);
  const observed = new ObservedCall(noted, await request.session.observers());
  return await observed.run(async () => {
    observed.obey(decision, refusal);
    await observed.send();
    return await make();
  });
}

async function decide(
  change: Change,
  { session, server, ctx, work, progress }: ToolRequest,
): Promise<Decided> {
  const { question } = change;
  if (question === undefined) return { decision: { decision: "allow", by: "policy" } };
  const { description, summary, byHand } = question;
  switch (session.changes) {
    case "allow":
      return { decision: { decision: "allow", by: "policy" } };
    case "deny":
      return denied(
        "policy",
        `${summary} is not allowed here (\`ipybox mcp --approve deny\`). ${byHand}`,
      );
    case "fixed":
      return denied("policy", `${summary} is not offered by this server. ${byHand}`);
    case "ask": {
      const asksElsewhere = !abilitiesOf(server, ctx, session).form ||
        (await work.kernel()).page.isAttended;
      if (!asksElsewhere) {
        work.activity = "Waiting for the user's approval";
        const answer = await session.rounds.confirm(description, ctx);
        if (typeof answer === "object") {
          progress.keep();
          return { decision: undefined, asked: answer };
        }
        if (answer === true) return { decision: { decision: "allow", by: "approver" } };
        if (answer === false) return denied("approver", `${summary}: the user did not allow it`);
      }
      work.activity = "Waiting for the user's approval on the approval page";
      const { page } = await work.kernel();
      const call = callOf(change, change.parameters, question.effect);
      const response = await page.confirm(call, ctx.mcpReq.signal, !asksElsewhere);
      if (response.accepted) return { decision: { decision: "allow", by: "approver" } };
      const { type, reason } = response;
      const otherwise = type === "approval_unavailable" ? `. Otherwise: ${byHand}` : "";
      const by = type === "approval_rejected" ? "approver" : type;
      return denied(by, `${summary}: ${reason}${otherwise}`, reason);
    }
  }
}

function denied(by: GateDecision["by"], message: string, reason?: string): Decided {
  return {
    decision: { decision: "deny", by, reason },
    refusal: new ToolCallError(refusalType(by), message),
  };
}

/** The change as a call with the given parameters. */
function callOf(
  { tool }: Change,
  parameters: Readonly<Record<string, unknown>>,
  effect?: string,
): ApprovalCall {
  return {
    kind: "change",
    serverName: "ipybox",
    toolName: tool,
    arguments: sealObject(toExact(parameters)),
    description: effect,
  };
}
