import type { ApprovalCall } from "./request.ts";

/** What becomes of a call: an approver is asked, or it is allowed or denied without asking. */
export type ApprovalMode = "ask" | "allow" | "deny";

/** What a policy says of a call. */
export interface PolicyVerdict {
  /** What becomes of the call. */
  readonly mode: ApprovalMode;
  /** Which rule says so, in words for the code that called and for logs. */
  readonly reason?: string;
  /**
   * Whether it is asked about because a rule may deny it. A person's earlier permission for a tool with
   * any arguments then does not count, only one for exactly these.
   *
   * @default {false}
   */
  readonly mayBeDenied?: boolean;
}

/** Decides which calls need asking. */
export interface ApprovalPolicy {
  /** Judges one call. */
  decide(call: ApprovalCall): PolicyVerdict;
  /** Patterns for names of arguments whose values the audit log omits, in addition to the built-in ones. */
  readonly redact?: readonly string[];
}

/** One mode for each kind of call. */
export interface ApprovalModes {
  /**
   * What becomes of tool calls.
   *
   * @default {"ask"}
   */
  tools?: ApprovalMode;
  /**
   * What becomes of shell commands.
   *
   * @default {"allow"}
   */
  shell?: ApprovalMode;
  /**
   * What becomes of requests for resources, prompts and completions. Lists need no approval, but are
   * denied with the rest.
   *
   * @default {"ask"}
   */
  resources?: ApprovalMode;
  /**
   * What becomes of the questions of servers: `"deny"` declines them, otherwise they are passed on to
   * whoever answers such questions.
   *
   * @default {"ask"}
   */
  elicitations?: ApprovalMode;
}

/** How calls are approved: one mode for all, one for each kind, or a policy. */
export type ApprovalSetting = ApprovalMode | ApprovalModes | ApprovalPolicy;

/** Makes a policy of a setting. */
export function approvalPolicy(setting: ApprovalSetting): ApprovalPolicy {
  if (typeof setting === "object" && "decide" in setting) return setting;
  const modes = typeof setting === "string"
    ? { tools: setting, shell: setting, resources: setting, elicitations: setting }
    : setting;
  const { tools = "ask", shell = "allow", resources = "ask", elicitations = "ask" } = modes;
  const byKind = {
    tool: tools,
    shell,
    shell_magic: shell,
    resource: resources,
    elicitation: elicitations,
    change: tools,
  } as const;
  for (const mode of Object.values(byKind)) {
    if (!MODES.includes(mode)) {
      throw new TypeError(`Unknown approval mode ${JSON.stringify(mode)}: use ask, allow or deny`);
    }
  }
  return {
    decide: ({ kind }) => {
      const mode = byKind[kind];
      return mode === "deny" ? { mode, reason: DENIED[kind] } : { mode };
    },
  };
}

/** Whether a setting may ask about shell commands, or deny them. If not, kernels need not ask. */
export function guardsShell(setting: ApprovalSetting = {}): boolean {
  if (typeof setting === "string") return setting !== "allow";
  return "decide" in setting || (setting.shell ?? "allow") !== "allow";
}

const MODES: readonly string[] = ["ask", "allow", "deny"];

const DENIED = {
  tool: "Tool calls are denied",
  shell: "Shell commands are denied",
  shell_magic: "Shell commands are denied",
  resource: "Resource requests are denied",
  elicitation: "Questions from servers are declined",
  change: "Changes are denied",
} as const;
