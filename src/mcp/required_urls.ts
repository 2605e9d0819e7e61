import { z } from "zod";
import { parseElicitation } from "./elicitation.ts";
import { ProtocolError, ProtocolErrorCode } from "./sdk.ts";
import type { ServerHooks } from "./server_hooks.ts";

/** More than a person would open for one call. */
const MAX_ADDRESSES = 5;

const required = z.object({
  elicitations: z.array(z.looseObject({ mode: z.literal("url") })).min(1).max(MAX_ADDRESSES),
});

/**
 * Asks for the addresses that have to be opened before a server does what it was asked, such as to
 * sign in.
 */
export async function openRequiredUrls(
  error: unknown,
  elicit: ServerHooks["elicit"],
  signal: AbortSignal,
): Promise<boolean> {
  if (!(error instanceof ProtocolError) || elicit === undefined) return false;
  if (error.code !== ProtocolErrorCode.UrlElicitationRequired) return false;
  const { elicitations = [] } = required.safeParse(error.data).data ?? {};
  for (const params of elicitations) {
    const question = parseElicitation(params);
    if (typeof question === "string") return false;
    if ((await elicit(question, signal)).action !== "accept") return false;
  }
  return elicitations.length > 0;
}
