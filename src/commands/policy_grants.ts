/**
 * What a policy lets happen without a question, for the person who is to accept it.
 *
 * @module
 */
import { many } from "../policy/match.ts";
import type { PolicyDocument, PolicyRule } from "../policy/schema.ts";

/** Something that a policy grants. */
export interface Grants {
  /** What it is, in ipybox's words. */
  readonly heading: string;
  /** What of it, with words of the policy. */
  readonly items: readonly string[];
}

/**
 * Lists what a policy allows, what reaches furthest last: that is what stands nearest to a question.
 *
 * @param document The policy.
 * @returns What it grants.
 */
export function grantsOf({ rules, trustedServers }: PolicyDocument): Grants[] {
  const allowing = rules.map((rule, index) => ({ rule, at: `rule ${index + 1}` }))
    .filter(({ rule }) => rule.effect === "allow");
  const narrow = allowing.filter(({ rule }) => !isUnconditional(rule));
  const wide = allowing.filter(({ rule }) => isUnconditional(rule));
  const grants = [
    {
      heading: "Calls that it allows without asking",
      items: [
        ...narrow.map(({ rule, at }) => `${at}: ${JSON.stringify(conditionsOf(rule))}`),
        ...wide.map(({ at }) => `${at}: every call that can be judged`),
      ],
    },
    {
      heading: "Servers whose annotations it believes",
      items: trustedServers.map((name) => JSON.stringify(name)),
    },
  ];
  return grants.filter(({ items }) => items.length > 0);
}

/**
 * Whether a rule matches every call that can be judged.
 *
 * @param rule The rule.
 * @returns Whether nothing in it restricts it.
 */
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
