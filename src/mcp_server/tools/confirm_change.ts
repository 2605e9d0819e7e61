import type { ApprovalCall } from "../../approval/request.ts";
import { sealObject, toExact } from "../../json/exact.ts";
import { abilitiesOf } from "../client_abilities.ts";
import { RequestProgress } from "../request_progress.ts";
import type { InputRequiredResult, SdkMcpServer, ServerContext } from "../sdk.ts";
import type { Session } from "../session.ts";

/** A change that a client asks for, and that its user decides upon. */
export interface Change {
  /** What would be done, to the last parameter. */
  readonly description: string;
  /** What is to be done, in a few words, such as `Registering the server "x"`. */
  readonly what: string;
  /** How the user can do it without the client. */
  readonly byHand: string;
  /** The tool that the client has called. */
  readonly tool: string;
  /** Its parameters, as they count. */
  readonly parameters: Readonly<Record<string, unknown>>;
  /** What that does, where the parameters do not tell. */
  readonly effect?: string | undefined;
}

/**
 * Has a change approved.
 *
 * @param change What would be done.
 * @param session Says what becomes of changes.
 * @param server The client's server.
 * @param ctx The request.
 * @returns `undefined` once it is approved, or what to answer the client.
 * @throws {Error} It is not approved, or nobody can be asked.
 */
export async function confirmChange(
  change: Change,
  session: Session,
  server: SdkMcpServer,
  ctx: ServerContext,
): Promise<InputRequiredResult | undefined> {
  const { description, what, byHand } = change;
  switch (session.changes) {
    case "allow":
      return undefined;
    case "deny":
      throw new Error(`${what} is not allowed here (\`ipybox mcp --approve deny\`). ${byHand}`);
    case "ask": {
      if (session.prefersPage || !abilitiesOf(server, ctx).form) {
        const work = { activity: "Waiting for the user's approval on the approval page" };
        using _progress = RequestProgress.of(work, ctx, session.log);
        const { page } = await session.parts;
        const response = await page.confirm(callOf(change), ctx.mcpReq.signal);
        if (response.accepted) return undefined;
        const { type, reason } = response;
        const otherwise = type === "approval_unavailable" ? `. Otherwise: ${byHand}` : "";
        throw new Error(`${what}: ${reason}${otherwise}`);
      }
      const answer = await session.rounds.confirm(description, ctx);
      if (typeof answer === "object") return answer;
      if (!answer) throw new Error(`${what}: the user did not allow it`);
      return undefined;
    }
  }
}

/** The change as the approval page shows it. */
function callOf({ tool, parameters, effect }: Change): ApprovalCall {
  return {
    kind: "change",
    serverName: "ipybox",
    toolName: tool,
    arguments: sealObject(toExact(parameters)),
    description: effect,
  };
}
