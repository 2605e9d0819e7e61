import { abilitiesOf } from "../client_abilities.ts";
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
  { description, what, byHand }: Change,
  session: Session,
  server: SdkMcpServer,
  ctx: ServerContext,
): Promise<InputRequiredResult | undefined> {
  switch (session.changes) {
    case "allow":
      return undefined;
    case "deny":
      throw new Error(`${what} is not allowed here (\`ipybox mcp --approve deny\`). ${byHand}`);
    case "ask": {
      if (!abilitiesOf(server, ctx).form) {
        throw new Error(
          `${what} needs the user's approval, and this MCP client cannot ask for it ` +
            `(it has no elicitation). ${byHand}`,
        );
      }
      const answer = await session.rounds.confirm(description, ctx);
      if (typeof answer === "object") return answer;
      if (!answer) throw new Error(`${what}: the user did not allow it`);
      return undefined;
    }
  }
}
