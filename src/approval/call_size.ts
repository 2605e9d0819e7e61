import { type ExactJson, isExactObject, stringifyExact } from "../json/exact.ts";
import type { ApprovalCall } from "./request.ts";

/** The longest call that a person is asked about, as bytes of JSON: more than anybody reads. */
export const MAX_SHOWN_BYTES: number = 256 * 1024;

/** Whether a call is too large to be shown to a person. Takes little time for calls of any size. */
export function isTooLargeToShow({ serverName, toolName, arguments: args }: ApprovalCall): boolean {
  const shown = [serverName, toolName, args];
  if (lengthUpTo(MAX_SHOWN_BYTES, shown) > MAX_SHOWN_BYTES) return true;
  return new TextEncoder().encode(stringifyExact(shown)).length > MAX_SHOWN_BYTES;
}

/** At most as long as the JSON of a value; stops counting above a limit. */
function lengthUpTo(limit: number, value: ExactJson): number {
  if (typeof value === "string") return value.length;
  if (isExactObject(value)) {
    let length = 1;
    for (const name in value) {
      length += name.length + lengthUpTo(limit, value[name] ?? null);
      if (length > limit) break;
    }
    return length;
  }
  if (!Array.isArray(value)) return 1;
  let length = 1;
  for (const item of value) {
    length += lengthUpTo(limit, item);
    if (length > limit) break;
  }
  return length;
}
