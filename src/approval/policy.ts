import { refuseUnknownKeys } from "../base/known_keys.ts";
import type { ApprovalCall } from "./request.ts";

/** How a call is decided: an approver is asked, or it is allowed or denied without asking. */
export type ApprovalMode = "ask" | "allow" | "deny";

/** A policy's decision on a call. */
export interface PolicyVerdict {
  /** How the call is decided. */
  readonly mode: ApprovalMode;
  /** The rule that decides, in words for the calling code and for logs. */
  readonly reason?: string;
  /**
   * Whether a person is asked because a rule may deny the call. Then a remembered permission counts
   * only if it is for exactly these arguments, not for any arguments of the tool.
   *
   * @default {false}
   */
  readonly mayBeDenied?: boolean;
}

/** Decides which calls need approval. */
export interface ApprovalPolicy {
  /** Decides on one call. */
  decide(call: ApprovalCall): PolicyVerdict;
  /**
   * Patterns for names of arguments whose values the audit log omits, in addition to the built-in
   * ones.
   */
  readonly redact?: readonly string[];
  /**
   * Whether it may ask about or deny shell commands. If not, kernels run them without a question.
   *
   * @default {true}
   */
  readonly guardsShell?: boolean;
}

/** One mode for each kind of call. */
export interface ApprovalModes {
  /**
   * How tool calls are decided.
   *
   * @default {"ask"}
   */
  tools?: ApprovalMode;
  /**
   * How shell commands are decided.
   *
   * @default {"allow"}
   */
  shell?: ApprovalMode;
  /**
   * How requests for resources, prompts and completions are decided. Lists need no approval, but
   * `"deny"` applies to them too.
   *
   * @default {"ask"}
   */
  resources?: ApprovalMode;
  /**
   * How servers' questions are handled: `"deny"` declines them; otherwise they are passed on to a
   * person.
   *
   * @default {"ask"}
   */
  elicitations?: ApprovalMode;
}

/** How calls are approved: one mode for all, one for each kind, or a policy. */
export type ApprovalSetting = ApprovalMode | ApprovalModes | ApprovalPolicy;

export function approvalPolicy(setting: ApprovalSetting): ApprovalPolicy {
  if (typeof setting === "object" && "decide" in setting) return setting;
  const modes = typeof setting === "string"
    ? { tools: setting, shell: setting, resources: setting, elicitations: setting }
    : setting;
  refuseUnknownKeys(modes, { known: KINDS, place: 'the option "approval"' });
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

/** Whether a setting may ask about or deny shell commands. If not, kernels need not ask. */
export function guardsShell(setting: ApprovalSetting = {}): boolean {
  if (typeof setting === "string") return setting !== "allow";
  if ("decide" in setting) return setting.guardsShell ?? true;
  return (setting.shell ?? "allow") !== "allow";
}

const KINDS = [
  "tools",
  "shell",
  "resources",
  "elicitations",
] as const satisfies readonly (keyof ApprovalModes)[];

const MODES: readonly string[] = ["ask", "allow", "deny"];

const DENIED = {
  tool: "Tool calls are denied",
  shell: "Shell commands are denied",
  shell_magic: "Shell commands are denied",
  resource: "Resource requests are denied",
  elicitation: "Questions from servers are declined",
  change: "Changes are denied",
} as const;
