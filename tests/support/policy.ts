import type { ApprovalMode } from "../../src/approval/policy.ts";
import { acceptPolicy, loadPolicy, type LoadPolicyOptions } from "../../src/approval/rules/file.ts";
import { approvalCall } from "../../src/approval/rules/rules.ts";
import { silentLogger } from "../../src/base/log.ts";

/**
 * Writes a workspace's policy and accepts it, as `ipybox trust` does.
 *
 * @param workspace The workspace.
 * @param text The policy.
 */
export async function writeAcceptedPolicy(workspace: string, text: string): Promise<void> {
  await Deno.mkdir(`${workspace}/.ipybox`, { recursive: true });
  await Deno.writeTextFile(`${workspace}/.ipybox/policy.json`, text);
  if (!await acceptPolicy(workspace, text)) throw new Error("The policy could not be accepted");
}

/**
 * What the policies of a workspace decide on a call of the tool `raw.count`.
 *
 * @param options The workspace, and what counts in it.
 * @returns The decision; `undefined` if there is no policy.
 */
export async function decisionOnCount(
  options: LoadPolicyOptions,
): Promise<ApprovalMode | undefined> {
  const policy = await loadPolicy({ log: silentLogger, ...options });
  return policy?.decide(approvalCall({ kind: "tool", server: "raw", tool: "count" })).mode;
}
