import { stringifyExact } from "../json/exact.ts";
import { sha256 } from "../json/digest.ts";
import type { ApprovalCall } from "./request.ts";

/**
 * Makes the id of a request: random, and bound to the call by its hash, so that an answer names the
 * very call that it is about.
 */
export function requestId(call: ApprovalCall): string {
  return `${crypto.randomUUID()}.${callHash(call)}`;
}

/** Checks that an id is that of a call. */
export function isIdOf(id: string, call: ApprovalCall): boolean {
  const [, hash] = id.split(".", 2);
  return hash === undefined || hash === callHash(call);
}

/** The hash of all that is run: what asks, at which server, which tool, and the arguments as sent. */
function callHash({ kind, serverName, toolName, arguments: args }: ApprovalCall): string {
  return sha256(stringifyExact([kind, serverName, toolName, args]));
}
