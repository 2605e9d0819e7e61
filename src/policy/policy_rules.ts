import type { ApprovalPolicy, PolicyVerdict } from "../approval/policy.ts";
import type { ApprovalCall } from "../approval/request.ts";
import { matchCommand } from "./command_pattern.ts";
import { matchArguments } from "./conditions.ts";
import { all, any, many, type Match, matchesGlob, sure } from "./match.ts";
import { type PathJudge, pathJudge, type PathJudgeOptions } from "./paths.ts";
import {
  type AnnotationName,
  ANNOTATIONS,
  type ArgumentCondition,
  type PolicyDocument,
  type PolicyEffect,
  type PolicyRule,
} from "./schema.ts";
import { describeCommand, type ShellCommand, ShellSyntaxError } from "./shell_command.ts";
import { parseShell } from "./shell_parser.ts";

/** A policy and the name of the file that it is from. */
export interface PolicySource {
  /** The file as people and code are told of it, such as `.ipybox/policy.json`. */
  readonly name: string;
  /** Its content. */
  readonly document: PolicyDocument;
}

/** What one rule says of a call or of one of its commands. */
export interface RuleFinding {
  /** The rule, such as `.ipybox/policy.json rule 2`. */
  readonly rule: string;
  /** What it does. */
  readonly effect: PolicyEffect;
  /** Whether it matches. */
  readonly match: Match;
  /** What cannot be told for sure, where it may match. */
  readonly doubt?: string | undefined;
  /** Why, as it says itself. */
  readonly reason?: string | undefined;
}

/** How a policy comes to a verdict on one command, or on a call as a whole. */
export interface PartExplanation {
  /** The command; absent for calls that are no shell lines. */
  readonly command?: string;
  /** What becomes of it. */
  readonly mode: PolicyEffect;
  /** Why. */
  readonly reason: string;
  /** What each rule that may match says. */
  readonly findings: readonly RuleFinding[];
}

/** How a policy comes to a verdict. */
export interface PolicyExplanation {
  /** What becomes of the call. */
  readonly mode: PolicyEffect;
  /** The rule that says so, or why none does. */
  readonly reason: string;
  /** Its commands, for shell lines; one part for other calls. */
  readonly parts: readonly PartExplanation[];
}

/**
 * Decides calls by rules: `deny` beats `ask`, `ask` beats `allow`, and what no rule matches is asked
 * about. Shell commands that no rule can match are allowed, as they are without a policy.
 *
 * What cannot be told for sure, such as where a symbolic link will lead or what a shell makes of a
 * word, never allows a call, and turns a rule that would deny it into a question.
 *
 * @example
 * ```ts
 * import { parsePolicy, PolicyRules } from "@ipybox/ipybox";
 *
 * const text = '{"rules": [{"effect": "allow", "tool": "get_*"}]}';
 * const policy = new PolicyRules([parsePolicy("policy.json", text)]);
 * const call = { kind: "tool", serverName: "time", toolName: "get_time", arguments: {} } as const;
 * console.error(policy.decide(call)); // { mode: "allow", reason: "policy.json rule 1" }
 * ```
 */
export class PolicyRules implements ApprovalPolicy {
  /** The files. */
  readonly sources: readonly PolicySource[];
  readonly #trusted: ReadonlySet<string>;
  readonly #paths: PathJudge;
  readonly #isAboutShell: boolean;

  /**
   * Joins policies: a rule of any of them counts.
   *
   * @param sources The policies.
   * @param options Where paths in arguments start.
   */
  constructor(sources: readonly PolicySource[], options: PathJudgeOptions = {}) {
    this.sources = sources;
    this.#trusted = new Set(sources.flatMap(({ document }) => document.trustedServers));
    this.#paths = pathJudge(options);
    this.#isAboutShell = sources.some(({ document }) => document.rules.some(canMatchShell));
  }

  /** Patterns for names of arguments whose values are to be left out of logs. */
  get redact(): string[] {
    return this.sources.flatMap(({ document }) => document.redact);
  }

  /**
   * Judges one call.
   *
   * @param call The call.
   * @returns What becomes of it, and by which rule of which file.
   */
  decide(call: ApprovalCall): PolicyVerdict {
    const { mode, reason } = this.explain(call);
    // The file that allows it may have come from where the change comes from.
    if (call.kind === "change" && mode === "allow") {
      return { mode: "ask", reason: "Policies do not allow changes of the setup" };
    }
    return { mode, reason };
  }

  /**
   * Tells how a verdict comes about.
   *
   * @param call The call.
   * @returns The verdict and what each rule says.
   */
  explain(call: ApprovalCall): PolicyExplanation {
    const parts = this.#parts(call);
    const deciding = strongest(parts.filter((part) => part.mode !== "allow")) ?? parts[0];
    if (deciding === undefined) return { mode: "ask", reason: "It has no commands", parts };
    const where = deciding.command === undefined || parts.length === 1
      ? ""
      : `, for ${deciding.command}`;
    return { mode: deciding.mode, reason: deciding.reason + where, parts };
  }

  #parts(call: ApprovalCall): PartExplanation[] {
    if (!isShell(call) || !this.#isAboutShell) return [this.#judge(call)];
    const parsed = commandsOf(call);
    if (typeof parsed === "string") {
      const part = this.#judge(call);
      if (part.mode !== "allow") return [part];
      return [{ ...part, mode: "ask", reason: `The line cannot be taken apart: ${parsed}` }];
    }
    const parts = parsed.map((command) => ({ command, ...this.#judge(call, command) }));
    return parts
      .filter(({ command, findings }) => !command.wrapper || findings.some(restricts))
      .map(({ command, ...part }) => ({ ...part, command: describeCommand(command) }));
  }

  #judge(call: ApprovalCall, command?: ShellCommand): Omit<PartExplanation, "command"> {
    const findings: RuleFinding[] = [];
    for (const { name, document } of this.sources) {
      for (const [index, rule] of document.rules.entries()) {
        const { match, doubt } = this.#match(rule, call, command);
        if (match === "no") continue;
        const title = rule.name === undefined ? "" : ` (${rule.name})`;
        const { effect, reason } = rule;
        findings.push({ rule: `${name} rule ${index + 1}${title}`, effect, match, doubt, reason });
      }
    }
    if (findings.length === 0 && isShell(call) && !this.#isAboutShell) {
      return { mode: "allow", reason: "No rule is about shell commands", findings };
    }
    return { ...verdictOf(findings), findings };
  }

  #match(
    rule: PolicyRule,
    call: ApprovalCall,
    command: ShellCommand | undefined,
  ): { readonly match: Match; readonly doubt?: string } {
    const { kind, server, tool } = rule;
    const named = all([
      sure(kind === undefined || many(kind).some((one) => one === call.kind)),
      matchName(server, call.serverName),
      matchName(tool, call.toolName),
    ]);
    const byCommand = this.#matchCommand(rule, call, command);
    const hints = matchHints(rule, call);
    const args = rule.arguments === undefined
      ? "yes"
      : matchArguments(rule.arguments, call.arguments, this.#paths);
    const match = all([named, byCommand, hints, args]);
    const { serverName } = call;
    const doubt = hints === "maybe"
      ? "the tool's annotations do not say enough"
      : args === "maybe"
      ? "its arguments cannot be judged for sure"
      : "the command cannot be judged for sure";
    if (match === "maybe") return { match, doubt };
    // A hint of a server that the user does not trust allows nothing.
    const isTrusted = rule.effect !== "allow" || this.#trusted.has(serverName);
    return match === "no" || rule.annotations === undefined || isTrusted
      ? { match }
      : { match: "maybe", doubt: `"${serverName}" is not in trustedServers` };
  }

  #matchCommand(
    { command: patterns, effect }: PolicyRule,
    { kind }: ApprovalCall,
    command: ShellCommand | undefined,
  ): Match {
    if (patterns === undefined) return "yes";
    if (kind !== "shell" && kind !== "shell_magic") return "no";
    if (command === undefined) return "maybe"; // it could not be taken apart
    const match = any(many(patterns).map((pattern) => matchCommand(pattern, command)));
    // `PATH=/elsewhere ls` is another `ls`
    return effect === "allow" && command.assigned && match === "yes" ? "maybe" : match;
  }
}

function matchName(patterns: string | readonly string[] | undefined, name: string): Match {
  if (patterns === undefined) return "yes";
  return any(many(patterns).map((pattern) => matchesGlob(pattern, name)));
}

/** Only tools have annotations. A hint that a server does not give may be either. */
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

function strongest<T extends { readonly mode: PolicyEffect }>(parts: readonly T[]): T | undefined {
  let result: T | undefined;
  for (const part of parts) {
    if (result === undefined || STRENGTH[part.mode] > STRENGTH[result.mode]) result = part;
  }
  return result;
}

/** The effect that a finding has: `undefined` for what might have been allowed. */
function effectOf({ effect, match }: RuleFinding): PolicyEffect | undefined {
  if (match === "yes") return effect;
  return effect === "allow" ? undefined : "ask";
}

function restricts(finding: RuleFinding): boolean {
  const effect = effectOf(finding);
  return effect === "ask" || effect === "deny";
}

function verdictOf(findings: readonly RuleFinding[]): { mode: PolicyEffect; reason: string } {
  const verdicts = findings.flatMap((finding) => {
    const mode = effectOf(finding);
    return mode === undefined ? [] : [{ mode, finding }];
  });
  const verdict = strongest(verdicts);
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
      : `${almost.rule} may match, but that cannot be told here: ${almost.doubt}`,
  };
}

function isShell({ kind }: ApprovalCall): boolean {
  return kind === "shell" || kind === "shell_magic";
}

/** Whether there can be a shell command that a rule matches. */
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

/** What shell commands have for a server. */
const SHELL_SERVER = "ipybox";

/** Longer lines are not taken apart: nobody can be asked about them either. */
const MAX_LINE = 256 * 1024;

/** Programs whose scripts are taken apart. */
const SHELL = /^(\/(usr\/)?bin\/)?(sh|bash|dash)$/;

/** The commands of a shell call, or why they cannot be told. */
function commandsOf({ arguments: args }: ApprovalCall): ShellCommand[] | string {
  const { cmd, program, ...others } = args;
  if (typeof cmd !== "string" || Object.keys(others).length > 0) return "it is no usual request";
  if (program !== undefined && (typeof program !== "string" || !SHELL.test(program))) {
    return "it is run by something that is not sh or bash";
  }
  if (cmd.length > MAX_LINE) return `it is longer than ${MAX_LINE} characters`;
  try {
    return parseShell(cmd);
  } catch (error) {
    if (error instanceof ShellSyntaxError) return error.message;
    throw error;
  }
}
