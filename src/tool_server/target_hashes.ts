import type { AuditTarget } from "../audit/audit_trail.ts";
import { canonicalJson, sha256 } from "../json/digest.ts";
import { toExact } from "../json/exact.ts";
import type { Tool } from "../mcp/tool_list.ts";
import type { ServerParams } from "../mcp/server_params.ts";
import { launchText } from "./server_facets.ts";

/** By the objects that were hashed, which stay the same from call to call. */
const known = new WeakMap<object, string>();

/**
 * Tells by which it can be seen later whether a call went to the same server and the same tool as
 * another one.
 */
export function targetHashes(params: ServerParams, tool?: Tool): AuditTarget {
  return {
    serverHash: hashOf(params, () => launchText(params)),
    toolHash: tool && hashOf(tool, () => canonicalJson(toExact(tool))),
  };
}

function hashOf(object: object, text: () => string): string {
  const hash = known.get(object) ?? sha256(text());
  known.set(object, hash);
  return hash;
}
