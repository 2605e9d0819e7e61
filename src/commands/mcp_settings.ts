import { approvalPolicy } from "../approval/policy.ts";
import type { Logger } from "../base/log.ts";
import { OwnEntries } from "../files/own_entries.ts";
import { UNWRITABLE } from "../files/user_folders.ts";
import type { McpServerOptions, SessionSettings } from "../mcp_server/session.ts";
import type { UnacceptedSetting } from "../mcp_server/setting_questions.ts";
import type { CommandIo, ParsedArgs } from "./command.ts";
import { approvalOf, kernelEnvOf } from "./executor_options.ts";

/** The settings in a workspace that `ipybox mcp` asks its client's user about. */
export class WorkspaceSettings implements SessionSettings {
  readonly #parsed: ParsedArgs;
  readonly #workspace: string;
  readonly #io: CommandIo;
  #policy = approvalPolicy({});

  constructor(parsed: ParsedArgs, workspace: string, io: CommandIo) {
    this.#parsed = parsed;
    this.#workspace = workspace;
    this.#io = io;
  }

  /** How calls are approved. If there is a policy, it is the one that was read last. */
  async approval(
    log: Logger,
  ): Promise<Pick<McpServerOptions, "approve" | "approveShell" | "policy">> {
    const { policy, ...modes } = await approvalOf(this.#parsed, this.#workspace, log);
    this.#policy = policy ?? approvalPolicy(modes);
    const latest = () => this.#policy;
    return {
      approve: modes.tools,
      approveShell: modes.shell,
      policy: policy && {
        decide: (call) => latest().decide(call),
        get redact() {
          return latest().redact;
        },
      },
    };
  }

  async unaccepted(): Promise<readonly UnacceptedSetting[]> {
    const found = await import("./file_settings.ts"); // most workspaces have no such settings
    const settings = [
      ...await found.unacceptedVariables(this.#workspace),
      ...await found.changedNamedFiles(this.#workspace, this.#parsed),
      ...await found.waitingPolicies(this.#workspace, this.#parsed),
    ];
    const refusals = await OwnEntries.open(this.#workspace, "refused");
    return settings.map(({ name, value, accept, ...shown }) => ({
      ...shown,
      isRefused: refusals.has(name, value),
      answer: async (isAccepted) => {
        await refusals.set(name, isAccepted ? undefined : value);
        if (!isAccepted || await accept()) return;
        this.#io.log.warn(`What was accepted counts in this process only: ${UNWRITABLE}`);
      },
    }));
  }

  async read(): Promise<Record<string, string>> {
    await this.approval(this.#io.log);
    return await kernelEnvOf(this.#workspace, this.#io.log);
  }
}
