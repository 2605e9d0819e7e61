import { z } from "zod";
import { CLIENT_CAPABILITIES_META_KEY, type SdkMcpServer, type ServerContext } from "./sdk.ts";

/** The client's abilities. */
export interface ClientAbilities {
  /** It can show a form. */
  readonly form: boolean;
  /** It can open a URL. */
  readonly url: boolean;
  /** It accepts a task instead of a result. */
  readonly tasks: boolean;
}

/** The protocol extension for tasks, which only the newer era has. */
export const TASKS = "io.modelcontextprotocol/tasks";

/** The relevant capabilities that each request of the newer era declares. */
const declared = z.object({
  elicitation: z.record(z.string(), z.unknown()).optional(),
  extensions: z.record(z.string(), z.unknown()).optional(),
});

/**
 * A client's declaration: once in the older era, with each request in the newer one. In a session
 * that prefers the approval page, the client does not ask its user.
 */
export function abilitiesOf(
  server: SdkMcpServer,
  ctx: ServerContext,
  session?: { readonly prefersPage: boolean },
): ClientAbilities {
  const envelope: Readonly<Record<string, unknown>> = ctx.mcpReq.envelope ?? {};
  const own = declared.safeParse(envelope[CLIENT_CAPABILITIES_META_KEY]);
  const elicitation = own.success
    ? own.data.elicitation
    : server.server.getClientCapabilities()?.elicitation;
  const tasks = own.data?.extensions?.[TASKS] !== undefined;
  if (elicitation === undefined || session?.prefersPage) return { form: false, url: false, tasks };
  // A client of the first versions declares an empty object, which means forms.
  const form = "form" in elicitation || !("url" in elicitation);
  return { form, url: "url" in elicitation, tasks };
}
