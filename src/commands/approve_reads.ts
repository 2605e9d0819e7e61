/** `--approve reads`: allows tools that only read, as their servers claimed at registration. */
import { readPackage } from "../apigen/package.ts";
import { type ApprovalPolicy, approvalPolicy } from "../approval/policy.ts";
import type { ApprovalCall } from "../approval/request.ts";
import { joinPolicies } from "../approval/rules/parse.ts";
import type { PolicyRules } from "../approval/rules/rules.ts";
import type { PolicyRule } from "../approval/rules/schema.ts";
import type { Logger } from "../base/log.ts";
import { launchText } from "../servers/fingerprint.ts";
import { ServerRegistry } from "../servers/registry.ts";
import { mcptoolsOf } from "./shared.ts";

/**
 * Adds rules to a policy that allow reading. The servers and their definitions count as they are now,
 * before any code runs.
 */
export async function allowingReads(
  policy: PolicyRules | undefined,
  { workspace, log }: { readonly workspace: string; readonly log: Logger },
): Promise<ApprovalPolicy> {
  const registry = await ServerRegistry.open({ workspace });
  const launches = new Map<string, string>();
  const rules: PolicyRule[] = [];
  for (const [server, params] of registry.entries) {
    if (!registry.isOwn(server, params)) continue;
    const tools = await readPackage(mcptoolsOf(workspace), server) ?? [];
    const tool = tools.filter(({ annotations }) => annotations.readOnlyHint === true)
      .map(({ name }) => literally(name));
    if (tool.length === 0) continue;
    launches.set(server, launchText(params));
    const name = `${server} says that it only reads`;
    rules.push({ effect: "allow", name, kind: "tool", server: literally(server), tool });
  }
  if (rules.length === 0) {
    log.warn("--approve reads allows nothing: no registered server says that a tool only reads");
  }
  const document = { trustedServers: [], redact: [], rules, tests: [] };
  const without = policy ?? approvalPolicy({});
  const source = { name: "--approve reads", document };
  const withReads = joinPolicies([...policy?.sources ?? [], source], { workspace }) ?? without;
  /** Whether the server is the registered one and still claims that its tool only reads. */
  const isUnchanged = ({ serverName, server, annotations }: ApprovalCall) =>
    server !== undefined && launches.get(serverName) === server.launch &&
    annotations?.readOnlyHint === true;
  return {
    redact: policy?.redact ?? [],
    guardsShell: policy !== undefined, // by default, shell commands run
    decide: (call) => (isUnchanged(call) ? withReads : without).decide(call),
  };
}

/** A pattern that only matches this name. */
function literally(name: string): string {
  return name.replace(/[*?\\]/g, "\\$&");
}
