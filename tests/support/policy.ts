import { acceptPolicy } from "../../src/approval/rules/file.ts";

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
