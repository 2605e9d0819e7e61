/**
 * Policies: files with rules that decide which calls are allowed, need approval or are denied.
 *
 * ```ts
 * import { CodeExecutor } from "@ipybox/ipybox";
 * import { loadPolicy } from "@ipybox/ipybox/policy";
 *
 * const workspace = ".";
 * const approval = await loadPolicy({ workspace });
 * await using executor = await CodeExecutor.start({ workspace, approval });
 * ```
 *
 * @module
 */
export { loadPolicy } from "./src/approval/rules/file.ts";
export { parsePolicy } from "./src/approval/rules/parse.ts";
export type { TrustSetting } from "./src/files/own_entries.ts";
export type { LoadPolicyOptions } from "./src/approval/rules/file.ts";
export type { Match } from "./src/approval/rules/match.ts";
export type { PathJudgeOptions } from "./src/approval/rules/paths.ts";
export { PolicyRules } from "./src/approval/rules/rules.ts";
export type { PolicyExplanation, PolicySource, RuleFinding } from "./src/approval/rules/rules.ts";
export type {
  AnnotationName,
  ArgumentCondition,
  ArgumentTest,
  PolicyCall,
  PolicyDocument,
  PolicyEffect,
  PolicyKind,
  PolicyRule,
  PolicyTest,
  PolicyValue,
} from "./src/approval/rules/schema.ts";
