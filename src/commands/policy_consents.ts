/**
 * `ipybox policy consents` and `forget`: the decisions that are remembered always.
 *
 * @module
 */
import { callName, visible } from "../approval/call_text.ts";
import { changesSince, type Consent, consentRule, isFor } from "../approval/consent.ts";
import type { ApprovalCall } from "../approval/request.ts";
import { ConsentFile } from "../policy/consent_file.ts";
import { serverFacets } from "../tool_server/server_facets.ts";
import { ServerRegistry } from "../tool_server/server_registry.ts";
import { type CommandIo, EXIT, UsageError } from "./command.ts";

/** Prints what is remembered. */
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

/** Takes back what is remembered, by its ids or all of it. */
export async function forgetConsents(
  workspace: string,
  io: CommandIo,
  which: { readonly ids: readonly string[]; readonly all: boolean },
): Promise<number> {
  const { ids, all } = which;
  if (all === ids.length > 0) {
    throw new UsageError("Give ids from `ipybox policy consents`, or --all");
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

/** A remembered decision on a call, as far as that can be told without starting its server. */
export interface ConsentFinding {
  /** What was decided. */
  readonly decision: "allow" | "deny";
  /** Its name. */
  readonly rule: string;
  /** What changed of the server since: it counts only where nothing did. */
  readonly changes: readonly string[];
}

/** Finds what is remembered of a call. */
export async function findConsents(
  workspace: string,
  call: ApprovalCall,
): Promise<ConsentFinding[]> {
  const file = await ConsentFile.open(workspace);
  const consents = await file.read();
  const params = (await ServerRegistry.open({ workspace })).get(call.serverName);
  return consents.filter((consent) => isFor(consent, call)).map((consent) => {
    const ofServer = Object.entries(consent.bound).filter(([, { about }]) => about === "server");
    const changes = params === undefined
      ? [] // it may be registered by a program
      : changesSince({ ...consent, bound: Object.fromEntries(ofServer) }, serverFacets(params));
    const foreign = file.isOwn(consent) ? [] : ["it was not decided on this machine"];
    return {
      decision: consent.decision,
      rule: consentRule(consent, "always"),
      changes: [...foreign, ...changes],
    };
  });
}

function line(consent: Consent): string {
  const { id, decision, call, reason, since } = consent;
  const what = visible(
    call ?? `${callName({ serverName: consent.server, toolName: consent.tool })}(…)`,
  );
  const why = reason === undefined ? "" : `: ${visible(reason)}`;
  return `${visible(id)}  ${visible(since).slice(0, 10)}  ${decision}  ${what}${why}`;
}

function shown({ salt: _salt, bound: _bound, arguments: args, ...consent }: Consent): unknown {
  return { ...consent, arguments: args === undefined ? "any" : "exactly these" };
}
