import type { ApprovalCall } from "../approval/request.ts";
import { sealObject, toExact } from "../json/exact.ts";
import type { PolicyRules } from "./policy_rules.ts";
import type { PolicyCall, PolicyEffect, PolicyTest } from "./schema.ts";

/** Makes the call that approvals would see of one that a person wrote down. */
export function approvalCall(call: PolicyCall): ApprovalCall {
  const { kind, command, annotations } = call;
  const isShell = kind === "shell" || kind === "shell_magic";
  const args = isShell && command !== undefined ? { cmd: command } : call.arguments ?? {};
  return {
    kind,
    serverName: call.server ?? (isShell ? "ipybox" : ""),
    toolName: call.tool ?? (isShell ? kind : ""),
    arguments: sealObject(toExact(args)),
    annotations,
  };
}

/** A test of a policy and its outcome. */
export interface PolicyTestResult {
  /** The test, such as `.ipybox/policy.json test 2`. */
  readonly test: string;
  /** What the test wants. */
  readonly expect: PolicyEffect;
  /** What the policy says. */
  readonly mode: PolicyEffect;
  /** Why. */
  readonly reason: string;
  /** The call. */
  readonly call: ApprovalCall;
}

/** Runs the tests that a policy's files have, each against all of them. */
export async function runPolicyTests(
  policy: PolicyRules,
  known: (call: ApprovalCall) => Promise<ApprovalCall>,
): Promise<PolicyTestResult[]> {
  const results = policy.sources.flatMap(({ name, document }) =>
    document.tests.map(async (test: PolicyTest, index) => {
      const call = await known(approvalCall(test.call));
      const { mode, reason } = policy.explain(call);
      const title = test.name === undefined ? "" : ` (${test.name})`;
      return { test: `${name} test ${index + 1}${title}`, expect: test.expect, mode, reason, call };
    })
  );
  return await Promise.all(results);
}
