/**
 * What a policy lets happen without a question, for the person who is to accept it.
 *
 * @module
 */
import { many } from "../policy/match.ts";
import type { PolicyDocument, PolicyRule } from "../policy/schema.ts";
import { startsPrograms } from "../policy/shell_programs.ts";

/** Something that a policy grants. */
export interface Grants {
  /** What it is, in ipybox's words. */
  readonly heading: string;
  /** What of it, with words of the policy. */
  readonly items: readonly string[];
}

/** What a policy grants. */
export interface PolicyGrants {
  /** What is bounded by the names of tools or commands, and what else the policy grants. */
  readonly narrow: readonly Grants[];
  /** What reaches further: it must stand right before a question, all of it in sight. */
  readonly wide: readonly Grants[];
}

/** Lists what a policy allows. */
export function grantsOf({ rules, trustedServers }: PolicyDocument): PolicyGrants {
  const allowing = rules.map((rule, index) => ({ rule, at: `rule ${index + 1}` }))
    .filter(({ rule }) => rule.effect === "allow");
  const itemsFor = (wanted: (rule: PolicyRule) => boolean) =>
    allowing.filter(({ rule }) => wanted(rule)).map(({ rule, at }) => {
      if (isUnconditional(rule)) return `${at}: every call that can be judged`;
      return `${at}: ${JSON.stringify(conditionsOf(rule))}`;
    });
  const given = (grants: readonly Grants[]) => grants.filter(({ items }) => items.length > 0);
  return {
    narrow: given([
      {
        heading: "Calls of named tools and commands that it allows without asking",
        items: itemsFor(isNarrow),
      },
      {
        heading: "Servers whose annotations it believes",
        items: trustedServers.map((name) => JSON.stringify(name)),
      },
    ]),
    wide: given([
      {
        heading: "Calls of any tool or command that it allows without asking",
        items: itemsFor((rule) => !isNarrow(rule)),
      },
    ]),
  };
}

/** Whether a rule spells out the tools or commands that it is about. */
function isNarrow({ tool, command }: PolicyRule): boolean {
  const isPlain = (text: string) => !/[*?]/.test(text);
  if (tool !== undefined && many(tool).every(isPlain)) return true;
  const programs = command === undefined
    ? []
    : many(command).map((pattern) => pattern.trim().split(/\s+/)[0] ?? "");
  return programs.length > 0 &&
    programs.every((name) => isPlain(name) && !startsPrograms(name));
}

/** Whether a rule matches every call that can be judged. */
export function isUnconditional(rule: PolicyRule): boolean {
  return Object.keys(conditionsOf(rule)).length === 0;
}

/** The conditions of a rule, without those that always hold. */
function conditionsOf(rule: PolicyRule): Partial<PolicyRule> {
  const { effect: _effect, name: _name, reason: _reason, ...conditions } = rule;
  return Object.fromEntries(
    Object.entries(conditions).filter(([name, condition]) => {
      if (condition === undefined) return false;
      if (name === "arguments") return Object.keys(condition).length > 0;
      const isPattern = name === "server" || name === "tool";
      return !isPattern || !many(rule[name]).some(matchesAll);
    }),
  );
}

/** A pattern of stars, with or without question marks, is for any name there is. */
function matchesAll(pattern: string | readonly string[] | undefined): boolean {
  return typeof pattern === "string" && /^[*?]+$/.test(pattern) && pattern.includes("*");
}
