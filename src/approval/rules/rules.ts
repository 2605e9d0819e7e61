import { sealObject, toExact } from "../../json/exact.ts";
import type { ApprovalPolicy, PolicyVerdict } from "../policy.ts";
import { type ApprovalCall, isShell } from "../request.ts";
import {
  allowsCommand,
  otherText,
  readShell,
  restrictsCommand,
  type ShellText,
} from "./commands.ts";
import { areOnIgnored, foldersOf, matchArguments } from "./conditions.ts";
import { all, any, many, type Match, matchesGlob, sure } from "./match.ts";
import { type PathJudge, pathJudge, type PathJudgeOptions } from "./paths.ts";
import {
  type AnnotationName,
  ANNOTATIONS,
  type ArgumentCondition,
  type PolicyCall,
  type PolicyDocument,
  type PolicyEffect,
  type PolicyRule,
  type PolicyTest,
} from "./schema.ts";

/** A policy and its file's name. */
export interface PolicySource {
  /** The file's name for people and code, such as `.ipybox/policy.json`. */
  readonly name: string;
  /** Its content. */
  readonly document: PolicyDocument;
  /** The content before a change that is not yet accepted: the stricter of the two decides. */
  readonly former?: PolicyDocument;
}

/** The result of one rule for a call. */
export interface RuleFinding {
  /** The name of the rule, such as `.ipybox/policy.json rule 2`. */
  readonly rule: string;
  /** Its content. */
  readonly written: PolicyRule;
  /** Its effect. */
  readonly effect: PolicyEffect;
  /** Whether it matches. */
  readonly match: Match;
  /** The uncertain part, if it may match. */
  readonly doubt?: string;
  /** The reason that the rule gives. */
  readonly reason?: string;
}

/** How a policy reaches a verdict. */
export interface PolicyExplanation {
  /** The effect on the call. */
  readonly mode: PolicyEffect;
  /** The rule that decides, or why none does. */
  readonly reason: string;
  /** The result of each rule that may match. */
  readonly findings: readonly RuleFinding[];
}

/**
 * Decides calls by rules: `deny` overrides `ask`, `ask` overrides `allow`, and calls that no rule
 * matches need approval. If no rule can match shell commands, they are allowed, as without a
 * policy.
 *
 * Uncertainty, such as where a symbolic link will lead or how a shell interprets a text, never
 * allows a call, and turns a rule that would deny it into a request for approval.
 *
 * @example
 * ```ts
 * import { parsePolicy, PolicyRules } from "@ipybox/ipybox/policy";
 *
 * const text = '{"rules": [{"effect": "allow", "tool": "get_*"}]}';
 * const policy = new PolicyRules([parsePolicy("policy.json", text)]);
 * const call = { kind: "tool", serverName: "time", toolName: "get_time", arguments: {} } as const;
 * console.error(policy.decide(call)); // { mode: "allow", reason: "policy.json rule 1" }
 * ```
 */
export class PolicyRules implements ApprovalPolicy {
  /** The policies. */
  readonly sources: readonly PolicySource[];
  readonly #trusted: ReadonlySet<string>;
  readonly #paths: () => PathJudge;
  readonly #isAboutShell: boolean;
  /** The policies before changes that are not yet accepted. */
  readonly #former: PolicyRules | undefined;

  /**
   * Joins policies: the rules of all of them apply. The folders that they name are resolved now.
   *
   * @param sources The policies.
   * @param options The bases of relative paths.
   */
  constructor(sources: readonly PolicySource[], options: PathJudgeOptions = {}) {
    this.sources = sources;
    this.#trusted = new Set(sources.flatMap(({ document }) => document.trustedServers));
    const folders = sources.flatMap(({ document }) =>
      document.rules.flatMap((rule) => Object.values(rule.arguments ?? {}).flatMap(foldersOf))
    );
    this.#paths = pathJudge(folders, options);
    this.#isAboutShell = sources.some(({ document }) => document.rules.some(canMatchShell));
    const isWaiting = sources.some(({ former }) => former !== undefined);
    this.#former = isWaiting ? new PolicyRules(sources.map(beforeChange), options) : undefined;
  }

  /** Patterns for names of arguments whose values logs must omit. */
  get redact(): string[] {
    return this.sources.flatMap(({ document, former = document }) => former.redact);
  }

  /**
   * Judges a call.
   *
   * @param call The call.
   * @returns The effect, and the rule and file that it comes from.
   */
  decide(call: ApprovalCall): PolicyVerdict {
    const { mode, reason, findings } = this.explain(call);
    return findings.some(mayDeny) ? { mode, reason, mayBeDenied: true } : { mode, reason };
  }

  /**
   * Explains a verdict.
   *
   * @param call The call.
   * @returns The verdict and the result of each rule.
   */
  explain(call: ApprovalCall): PolicyExplanation {
    const now = this.#explain(call);
    const before = this.#former?.explain(call);
    if (before === undefined) return now;
    const known = new Set(now.findings.map(({ written }) => written));
    const others = before.findings.filter(({ written }) => !known.has(written));
    const findings = [...now.findings, ...others];
    if (STRENGTH[before.mode] <= STRENGTH[now.mode]) return { ...now, findings };
    const reason = `${before.reason} (until the user accepts the policy as it is now)`;
    return { mode: before.mode, reason, findings };
  }

  #explain(call: ApprovalCall): PolicyExplanation {
    const text = isShell(call) ? shellText(call) : undefined;
    const findings: RuleFinding[] = [];
    for (const { name, document } of this.sources) {
      // Each has its own count of looks, so that a repository's rules leave enough for the user's.
      const judge = { paths: this.#paths(), text };
      for (const [index, rule] of document.rules.entries()) {
        const { match, doubt } = this.#match(rule, call, judge);
        if (match === "no") continue;
        const title = rule.name === undefined ? "" : ` (${rule.name})`;
        const { effect, reason } = rule;
        findings.push({
          rule: `${name} rule ${index + 1}${title}`,
          written: rule,
          effect,
          match,
          doubt,
          reason,
        });
      }
    }
    if (findings.length === 0 && isShell(call) && !this.#isAboutShell) {
      return { mode: "allow", reason: "No rule applies to shell commands", findings };
    }
    return { ...verdictOf(findings), findings };
  }

  #match(
    rule: PolicyRule,
    call: ApprovalCall,
    { text, paths }: { readonly text: ShellText | undefined; readonly paths: PathJudge },
  ): { readonly match: Match; readonly doubt?: string } {
    const named = all(matchNames(rule, call));
    const hints = matchHints(rule, call);
    if (named === "no" || hints === "no") return { match: "no" };
    const byCommand = matchCommand(rule, text);
    const args = rule.arguments === undefined
      ? "yes"
      : matchArguments(rule.arguments, call.arguments, paths);
    const match = all([named, byCommand, hints, args]);
    const { serverName } = call;
    const doubt = named === "maybe"
      ? "its names take too long to judge"
      : args === "maybe"
      ? "its arguments cannot be judged with certainty"
      : byCommand === "maybe"
      ? doubtOf(text)
      : INCOMPLETE;
    if (match === "maybe") return { match, doubt };
    if (match === "yes" && rule.effect === "allow" && areOnIgnored(rule.arguments ?? {}, call)) {
      return { match: "maybe", doubt: "it is about an argument that the tool does not take" };
    }
    // A server's hint allows nothing unless the user trusts the server.
    const isTrusted = rule.effect !== "allow" || this.#trusted.has(serverName);
    return match === "no" || rule.annotations === undefined || isTrusted
      ? { match }
      : { match: "maybe", doubt: `"${serverName}" is not in trustedServers` };
  }
}

function beforeChange({ name, document, former }: PolicySource): PolicySource {
  return former === undefined ? { name, document } : { name: `former ${name}`, document: former };
}

/** The doubt about a tool whose server omits hints that a rule refers to. */
const INCOMPLETE = "the tool's annotations are incomplete";

/** Whether a rule would deny the call unless its names and arguments are harmless, which is unknown. */
function mayDeny({ effect, match, doubt }: RuleFinding): boolean {
  return effect === "deny" && match === "maybe" && doubt !== INCOMPLETE;
}

function matchCommand(
  { command, effect }: PolicyRule,
  text: ShellText | undefined,
): Match {
  if (command === undefined) return "yes";
  if (text === undefined) return "no";
  const match = effect === "allow" ? allowsCommand : restrictsCommand;
  return any(many(command).map((pattern) => match(pattern, text)));
}

/** Why a command rule is uncertain. */
function doubtOf(text: ShellText | undefined): string {
  if (text?.type === "other") return `it is not a simple command: ${text.reason}`;
  return text?.starts
    ? "it may start other programs"
    : "the command cannot be judged with certainty";
}

function* matchNames(
  { kind, server, tool }: PolicyRule,
  call: ApprovalCall,
): Generator<Match> {
  yield sure(kind === undefined || many(kind).some((one) => one === call.kind));
  yield matchName(server, call.serverName);
  yield matchName(tool, call.toolName);
}

function matchName(
  patterns: string | readonly string[] | undefined,
  name: string,
): Match {
  if (patterns === undefined) return "yes";
  return any(many(patterns).values().map((pattern) => matchesGlob(pattern, name)));
}

/** Only tools have annotations. A missing hint may be either value. */
function matchHints({ annotations }: PolicyRule, call: ApprovalCall): Match {
  if (annotations === undefined) return "yes";
  if (call.kind !== "tool") return "no";
  return all(ANNOTATIONS.map((name) => matchHint(annotations[name], name, call)));
}

function matchHint(wanted: boolean | undefined, name: AnnotationName, call: ApprovalCall): Match {
  if (wanted === undefined) return "yes";
  const given = call.annotations?.[name];
  return given === undefined ? "maybe" : sure(given === wanted);
}

const STRENGTH = { allow: 0, ask: 1, deny: 2 } as const;

/** The effect of a finding; `undefined` if it might have allowed the call. */
function effectOf({ effect, match }: RuleFinding): PolicyEffect | undefined {
  if (match === "yes") return effect;
  return effect === "allow" ? undefined : "ask";
}

function verdictOf(findings: readonly RuleFinding[]): { mode: PolicyEffect; reason: string } {
  let verdict: { readonly mode: PolicyEffect; readonly finding: RuleFinding } | undefined;
  for (const finding of findings) {
    const mode = effectOf(finding);
    if (mode === undefined) continue;
    if (verdict === undefined || STRENGTH[mode] > STRENGTH[verdict.mode]) {
      verdict = { mode, finding };
    }
  }
  if (verdict !== undefined) {
    const { mode, finding } = verdict;
    const unsure = finding.match === "maybe" ? `, which may match: ${finding.doubt}` : "";
    const why = finding.reason === undefined ? "" : `: ${finding.reason}`;
    return { mode, reason: `${finding.rule}${unsure}${why}` };
  }
  const almost = findings[0];
  return {
    mode: "ask",
    reason: almost === undefined
      ? "No rule matches"
      : `${almost.rule} may match, but this is uncertain: ${almost.doubt}`,
  };
}

/** Whether a rule can match any shell command. */
function canMatchShell({ kind, server, tool, annotations, arguments: args }: PolicyRule): boolean {
  const kinds = ["shell", "shell_magic"].filter((one) =>
    (kind === undefined || many<string>(kind).includes(one)) &&
    matchName(tool, one) !== "no"
  );
  return kinds.length > 0 && annotations === undefined &&
    matchName(server, SHELL_SERVER) !== "no" &&
    Object.entries(args ?? {}).every(([pointer, condition]) =>
      /^($|\/cmd|\/program)/.test(pointer) || isAbsence(condition)
    );
}

function isAbsence(condition: ArgumentCondition): boolean {
  return typeof condition === "object" && condition !== null && condition.exists === false;
}

/** The server name in calls of shell commands. */
const SHELL_SERVER = "ipybox";

/** Shells whose commands are read. */
const SHELL = /^(\/(usr\/)?bin\/)?(sh|bash|dash)$/;

function shellText({ arguments: args }: ApprovalCall): ShellText {
  const { cmd, program, ...others } = args;
  if (typeof cmd !== "string") return otherText("", "it is empty");
  if (Object.keys(others).length > 0) return otherText(cmd, "it has unusual arguments");
  if (program !== undefined && (typeof program !== "string" || !SHELL.test(program))) {
    return otherText(cmd, "it is run by a program other than sh or bash");
  }
  return readShell(cmd);
}

/** Converts a call that a person wrote to the form that approvals use. */
export function approvalCall(call: PolicyCall): ApprovalCall {
  const { kind, command, annotations } = call;
  const ofShell = isShell(call);
  const args = ofShell && command !== undefined ? { cmd: command } : call.arguments ?? {};
  return {
    kind,
    serverName: call.server ?? (ofShell ? SHELL_SERVER : ""),
    toolName: call.tool ?? (ofShell ? kind : ""),
    arguments: sealObject(toExact(args)),
    annotations,
  };
}

interface PolicyTestResult {
  /** The name of the test, such as `.ipybox/policy.json test 2`. */
  readonly test: string;
  /** The expected effect. */
  readonly expect: PolicyEffect;
  /** The actual effect. */
  readonly mode: PolicyEffect;
  readonly reason: string;
  readonly call: ApprovalCall;
}

/** Runs the tests in a policy's files, each against the joined policy. */
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
