/** `ipybox policy consents` and `forget`: the permanently remembered decisions. */
import { callName, visible } from "../approval/call_text.ts";
import { changesSince, type Consent, consentRule, isFor } from "../approval/consents.ts";
import type { ApprovalCall } from "../approval/request.ts";
import { patternText } from "../approval/pattern.ts";
import { startsPrograms } from "../approval/rules/commands.ts";
import { ConsentFile } from "../approval/rules/consent_file.ts";
import { many } from "../approval/rules/match.ts";
import { patternJudge } from "../approval/rules/patterns.ts";
import type { PolicyDocument, PolicyRule } from "../approval/rules/schema.ts";
import { serverFingerprint } from "../servers/fingerprint.ts";
import { ServerRegistry } from "../servers/registry.ts";
import { type CommandIo, EXIT, UsageError } from "./command.ts";
import type { ForeignPart } from "./foreign_rows.ts";

export async function listConsents(
  workspace: string,
  io: CommandIo,
  json: boolean,
): Promise<number> {
  const consents = await (await ConsentFile.open(workspace)).read();
  if (json) io.out(JSON.stringify(consents.map(shown), null, 2) + "\n");
  else for (const consent of consents) io.out(line(consent) + "\n");
  if (!json && consents.length === 0) io.err("No decisions are remembered");
  return EXIT.ok;
}

/** Forgets remembered decisions, by their ids or all of them. */
export async function forgetConsents(
  workspace: string,
  io: CommandIo,
  which: { readonly ids: readonly string[]; readonly all: boolean },
): Promise<number> {
  const { ids, all } = which;
  if (all === ids.length > 0) {
    throw new UsageError("Specify ids from `ipybox policy consents`, or --all");
  }
  const file = await ConsentFile.open(workspace);
  const known = (await file.read()).map(({ id }) => id);
  const unknown = ids.find((id) => !known.includes(id));
  if (unknown !== undefined) throw new UsageError(`No decision "${unknown}" is remembered`);
  for (const consent of await file.forget(({ id }) => all || ids.includes(id))) {
    io.err(`Forgot: ${line(consent)}`);
  }
  return EXIT.ok;
}

/** A remembered decision on a call, as far as it is known without starting the server. */
export interface ConsentFinding {
  readonly decision: "allow" | "deny";
  readonly rule: string;
  /** The server's changes since; the decision counts only if there were none. */
  readonly changes: readonly string[];
}

export async function findConsents(
  workspace: string,
  call: ApprovalCall,
): Promise<ConsentFinding[]> {
  const consents = await (await ConsentFile.open(workspace)).read();
  const params = (await ServerRegistry.open({ workspace })).get(call.serverName);
  const patterns = patternJudge({ workspace });
  return consents.filter((consent) => isFor(consent, call, patterns)).map((consent) => {
    const ofServer = Object.entries(consent.bound).filter(([, { about }]) => about === "server");
    const changes = params === undefined
      ? [] // a program may register it
      : changesSince(
        { ...consent, bound: Object.fromEntries(ofServer) },
        serverFingerprint(params),
      );
    return {
      decision: consent.decision,
      rule: consentRule(consent, "always"),
      changes,
    };
  });
}

function line(consent: Consent): string {
  const { id, decision, call, where, reason, since } = consent;
  const name = `${callName({ serverName: consent.server, toolName: consent.tool })}(…)`;
  const subject = visible(where === undefined ? call ?? name : `${name}, ${patternText(where)}`);
  const why = reason === undefined ? "" : `: ${visible(reason)}`;
  return `${visible(id)}  ${visible(since).slice(0, 10)}  ${decision}  ${subject}${why}`;
}

function shown({ salt: _salt, bound: _bound, arguments: args, ...consent }: Consent): unknown {
  const any = consent.where === undefined ? "any" : "matching";
  return { ...consent, arguments: args === undefined ? any : "exactly these" };
}

// The calls that a policy allows without asking, for the person who accepts it.

interface PolicyGrants {
  /** Grants for named tools or commands, and other limited ones. */
  readonly narrow: readonly ForeignPart[];
  /** Wider grants, which must be shown completely, right before the question. */
  readonly wide: readonly ForeignPart[];
}

export function grantsOf({ rules, trustedServers, redact }: PolicyDocument): PolicyGrants {
  const allowing = rules.map((rule, index) => ({ rule, at: `rule ${index + 1}` }))
    .filter(({ rule }) => rule.effect === "allow");
  const itemsFor = (wanted: (rule: PolicyRule) => boolean) =>
    allowing.filter(({ rule }) => wanted(rule)).map(({ rule, at }) => {
      if (isUnconditional(rule)) return `${at}: every call that can be judged`;
      // Still shown: a policy of the user's own may name servers, now or later.
      const isFuture = rule.annotations !== undefined && trustedServers.length === 0;
      const when = isFuture ? ", once a server is in trustedServers" : "";
      return `${at}${when}: ${JSON.stringify(conditionsOf(rule))}`;
    });
  const given = (parts: readonly ForeignPart[]) =>
    parts.filter(({ lines }) => lines.length > 0)
      .map(({ heading, lines }) => ({ heading: `${heading} (${lines.length})`, lines }));
  return {
    narrow: given([
      {
        heading: "Calls of named tools and commands that it allows without asking",
        lines: itemsFor(isNarrow),
      },
      {
        heading: "Servers whose annotations it trusts",
        lines: trustedServers.map((name) => JSON.stringify(name)),
      },
      {
        heading: "Arguments that it omits from the audit log",
        lines: redact.map((pattern) => JSON.stringify(pattern)),
      },
    ]),
    wide: given([
      {
        heading: "Calls of any tool or command that it allows without asking",
        lines: itemsFor((rule) => !isNarrow(rule)),
      },
    ]),
  };
}

/** Whether a rule names the tools or commands that it is about. */
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

/** A pattern of stars and question marks matches any name. */
function matchesAll(pattern: string | readonly string[] | undefined): boolean {
  return typeof pattern === "string" && /^[*?]+$/.test(pattern) && pattern.includes("*");
}
