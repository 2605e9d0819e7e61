import type { ApprovalPolicy, PolicyVerdict } from "../approval/policy.ts";
import type { ApprovalCall } from "../approval/request.ts";
import { matchCommand } from "./command_pattern.ts";
import { matchArguments } from "./conditions.ts";
import { all, any, many, type Match, matchesGlob, sure } from "./match.ts";
import { type PathJudge, pathJudge, type PathJudgeOptions } from "./paths.ts";
import {
  type AnnotationName,
  ANNOTATIONS,
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
 * about.
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
    if (call.kind !== "shell" && call.kind !== "shell_magic") return [this.#judge(call)];
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
        const match = this.#match(rule, call, command);
        if (match === "no") continue;
        const title = rule.name === undefined ? "" : ` (${rule.name})`;
        const { effect, reason } = rule;
        findings.push({ rule: `${name} rule ${index + 1}${title}`, effect, match, reason });
      }
    }
    return { ...verdictOf(findings), findings };
  }

  #match(rule: PolicyRule, call: ApprovalCall, command: ShellCommand | undefined): Match {
    const { kind, server, tool } = rule;
    return all([
      sure(kind === undefined || many(kind).some((one) => one === call.kind)),
      sure(server === undefined || many(server).some((one) => matchesGlob(one, call.serverName))),
      sure(tool === undefined || many(tool).some((one) => matchesGlob(one, call.toolName))),
      this.#matchCommand(rule, call, command),
      this.#matchAnnotations(rule, call),
      rule.arguments === undefined
        ? "yes"
        : matchArguments(rule.arguments, call.arguments, this.#paths),
    ]);
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

  /** A hint of a server that the user does not trust allows nothing; one that it did not give may be either. */
  #matchAnnotations({ annotations, effect }: PolicyRule, call: ApprovalCall): Match {
    if (annotations === undefined) return "yes";
    const match = all(ANNOTATIONS.map((name) => matchHint(annotations[name], name, call)));
    const believed = effect !== "allow" || this.#trusted.has(call.serverName);
    return match === "yes" && !believed ? "maybe" : match;
  }
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
    const unsure = finding.match === "maybe" ? ", which may match" : "";
    const why = finding.reason === undefined ? "" : `: ${finding.reason}`;
    return { mode, reason: `${finding.rule}${unsure}${why}` };
  }
  const almost = findings[0];
  return {
    mode: "ask",
    reason: almost === undefined
      ? "No rule matches"
      : `No rule matches for sure (${almost.rule} may)`,
  };
}

/** Programs whose scripts are taken apart. */
const SHELL = /^(\/(usr\/)?bin\/)?(sh|bash|dash)$/;

/** The commands of a shell call, or why they cannot be told. */
function commandsOf({ arguments: args }: ApprovalCall): ShellCommand[] | string {
  const { cmd, program, ...others } = args;
  if (typeof cmd !== "string" || Object.keys(others).length > 0) return "it is no usual request";
  if (program !== undefined && (typeof program !== "string" || !SHELL.test(program))) {
    return "it is run by something that is not sh or bash";
  }
  try {
    return parseShell(cmd);
  } catch (error) {
    if (error instanceof ShellSyntaxError) return error.message;
    throw error;
  }
}
