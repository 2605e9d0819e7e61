import type { GatewayAddress } from "./gateway_connection.ts";
import { limitHint, type RaisedException } from "./limit_hint.ts";

/** What of a gateway explains why code fails. */
export type HintContext = Pick<GatewayAddress, "limits" | "sandboxed">;

/** Says what ipybox has to do with an exception, and what helps. */
export function failureHint(raised: RaisedException, context: HintContext): string | undefined {
  const { limits, sandboxed = false } = context;
  return (limits && limitHint(raised, limits)) ?? moduleHint(raised) ??
    (sandboxed ? networkHint(raised) : undefined);
}

/**
 * Names the module that code lacked where installing packages may help. Who reads the error knows how
 * that is done: by a command, a tool or a method.
 */
export function missingModule(
  { ename, evalue }: Pick<RaisedException, "ename" | "evalue">,
): string | undefined {
  const name = missing(ename, evalue)?.name ?? "";
  return ["", "mcptools", "gentools", "mcpparse"].includes(name) ? undefined : name;
}

function missing(ename: string, evalue: string): { name?: string; inner?: string } | undefined {
  if (ename !== "ModuleNotFoundError") return undefined;
  return /^No module named '(?<name>[A-Za-z_]\w{0,99})(?:\.(?<inner>\w{1,100}))?/.exec(evalue)
    ?.groups;
}

function moduleHint({ ename, evalue }: RaisedException): string | undefined {
  const { name, inner } = missing(ename, evalue) ?? {};
  if (name !== "mcptools") return undefined;
  return inner === undefined
    ? "[ipybox] No MCP server is registered here: see `ipybox register --help`"
    : `[ipybox] No MCP server "${inner}" is registered here: see \`ipybox servers\``;
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
