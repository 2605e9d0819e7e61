import type { GatewayAddress } from "./gateway_connection.ts";
import { limitHint, type RaisedException } from "./limit_hint.ts";

/** What of a gateway explains why code fails. */
export type HintContext = Pick<GatewayAddress, "limits" | "sandboxed">;

/**
 * Says what ipybox has to do with an exception, and what helps.
 *
 * @param raised The exception, which executed code may have forged.
 * @param context The limits in force, and whether there is a sandbox.
 * @returns A line for the user, or `undefined` where ipybox has nothing to do with it.
 */
export function failureHint(raised: RaisedException, context: HintContext): string | undefined {
  const { limits, sandboxed = false } = context;
  return (limits && limitHint(raised, limits)) ?? moduleHint(raised) ??
    (sandboxed ? networkHint(raised) : undefined);
}

function moduleHint({ ename, evalue }: RaisedException): string | undefined {
  if (ename !== "ModuleNotFoundError") return undefined;
  const [, name = "", rest] =
    /^No module named '([A-Za-z_]\w{0,99})(?:\.(\w{1,100}))?/.exec(evalue) ?? [];
  if (name === "" || name === "gentools" || name === "mcpparse") return undefined;
  if (name !== "mcptools") {
    return `[ipybox] To install it: ipybox install ${name} (MCP: install_package)`;
  }
  return rest === undefined
    ? "[ipybox] No MCP server is registered here: see `ipybox register --help`"
    : `[ipybox] No MCP server "${rest}" is registered here: see \`ipybox servers\``;
}

function networkHint({ evalue }: RaisedException): string | undefined {
  if (!UNREACHABLE.some((words) => evalue.includes(words))) return undefined;
  return "[ipybox] No network: the sandbox reaches only hosts in network.allowedDomains of " +
    "--sandbox-config (docs/network.md)";
}

/** What a lookup, a connection and the sandbox's proxy say of hosts that are not allowed. */
const UNREACHABLE: readonly string[] = [
  "name resolution",
  "Name or service not known",
  "nodename nor servname",
  "Network is unreachable",
  "Tunnel connection failed: 403",
];
