import { approvalPolicy } from "../approval/policy.ts";
import type { Logger } from "../base/log.ts";
import { OwnEntries } from "../files/own_entries.ts";
import { UNWRITABLE } from "../files/user_folders.ts";
import type { McpServerOptions, SessionSettings } from "../mcp_server/session.ts";
import type { CommandIo, ParsedArgs } from "./command.ts";
import { approvalOf, kernelEnvOf } from "./executor_options.ts";

/** The settings in a workspace that `ipybox mcp` asks its client's user about. */
interface WorkspaceSettings extends SessionSettings {
  /** How calls are approved. A policy is always the one that was read last. */
  approval(log: Logger): Promise<Pick<McpServerOptions, "approve" | "approveShell" | "policy">>;
}

export function workspaceSettings(
  parsed: ParsedArgs,
  workspace: string,
  io: CommandIo,
): WorkspaceSettings {
  let latest = approvalPolicy({});
  const approval: WorkspaceSettings["approval"] = async (log) => {
    const { policy, ...modes } = await approvalOf(parsed, workspace, log);
    latest = policy ?? approvalPolicy(modes);
    return {
      approve: modes.tools,
      approveShell: modes.shell,
      policy: policy && {
        decide: (call) => latest.decide(call),
        get redact() {
          return latest.redact;
        },
      },
    };
  };
  return {
    approval,
    async unaccepted() {
      const found = await import("./file_settings.ts"); // most workspaces have no such settings
      const settings = [
        ...await found.unacceptedVariables(workspace),
        ...await found.changedNamedFiles(workspace, parsed),
        ...await found.waitingPolicies(workspace, parsed),
      ];
      const refusals = await OwnEntries.open(workspace, "refused");
      return settings.map(({ name, value, accept, ...shown }) => ({
        ...shown,
        isRefused: refusals.has(name, value),
        answer: async (isAccepted) => {
          await refusals.set(name, isAccepted ? undefined : value);
          if (!isAccepted || await accept()) return;
          io.log.warn(`What was accepted counts in this process only: ${UNWRITABLE}`);
        },
      }));
    },
    async read() {
      await approval(io.log);
      return await kernelEnvOf(workspace, io.log);
    },
  };
}
