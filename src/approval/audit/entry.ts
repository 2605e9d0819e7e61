import type { ExactObject } from "../../json/exact.ts";
import { sha256 } from "../../json/digest.ts";
import { redactArguments, type RedactOptions } from "./redact.ts";

/** A request, its decision and, if known already, how it ended. */
export interface AuditEntry {
  /** The request's id, the same as for approvers. */
  readonly id: string;
  /** When the request arrived. */
  readonly time: Date;
  /** The SHA-256 of the code that made it, if known. */
  readonly codeHash?: string;
  /** The subject, as in `ApprovalRequest.kind`, or `"input"` for code that asked a person. */
  readonly kind: string;
  /** The call during which a server asked a person. */
  readonly callId?: string;
  /** The registered server. */
  readonly server: string;
  /** The tool. */
  readonly tool: string;
  /** The SHA-256 of how the server is started or reached, as shown to approvers. */
  readonly serverHash?: string;
  /** The SHA-256 of the tool's definition, with the names in its objects sorted. */
  readonly toolHash?: string;
  /** The arguments; the log omits secrets. */
  readonly arguments: ExactObject;
  /** The arguments as edited by an approver. */
  readonly edited?: ExactObject;
  /**
   * The decision; absent if the call failed before it. A question that was answered counts as
   * allowed.
   */
  readonly decision?: "allow" | "deny";
  /**
   * Who decided: `"policy"`, a remembered `"consent"`, `"approver"`, or why nobody did; for a
   * question, who answered.
   */
  readonly by?: string;
  /** The rule, the consent, or the approver's reason. */
  readonly reason?: string;
  /** How long the decision took, in milliseconds. */
  readonly waitMs?: number;
  /**
   * How it ended: `"ok"`, the type of the error, or the outcome of a question. Absent in the line
   * that is written before a call is sent; an {@linkcode AuditOutcome} follows that one.
   */
  readonly status?: string;
  /** How long it took in total, in milliseconds. */
  readonly durationMs?: number;
}

/** The outcome of a request whose {@linkcode AuditEntry} was written before it ended. */
export interface AuditOutcome {
  /** The request's id. */
  readonly id: string;
  /** When it ended. */
  readonly time: Date;
  /** `"ok"`, or the type of the error. */
  readonly status: string;
  /** How long it took in total, in milliseconds. */
  readonly durationMs: number;
}

/** The fields of a log line, besides its place in the chain. */
export type Fields = Readonly<Record<string, unknown>>;

/** Creates the line of a request. */
export function entryFields(entry: AuditEntry, options: RedactOptions): Fields {
  const { edited } = entry;
  return {
    time: entry.time.toISOString(),
    id: entry.id,
    codeHash: entry.codeHash,
    kind: entry.kind,
    callId: entry.callId,
    server: boundedName(entry.server),
    tool: boundedName(entry.tool),
    serverHash: entry.serverHash,
    toolHash: entry.toolHash,
    arguments: redactArguments(entry.arguments, options),
    edited: edited === undefined ? undefined : redactArguments(edited, options),
    decision: entry.decision,
    by: entry.by,
    reason: entry.reason?.slice(0, MAX_REASON),
    waitMs: tenths(entry.waitMs),
    status: entry.status,
    durationMs: tenths(entry.durationMs),
  };
}

/** Creates the line of an outcome. */
export function outcomeFields({ id, time, status, durationMs }: AuditOutcome): Fields {
  return { time: time.toISOString(), outcome: id, status, durationMs: tenths(durationMs) };
}

/** Truncates a name that executed code made up, and appends its length and a hash of all of it. */
function boundedName(name: string): string {
  if (name.length <= MAX_NAME) return name;
  return `${name.slice(0, MAX_NAME)}…[cut:${name.length}:${sha256(name).slice(0, 16)}]`;
}

const MAX_NAME = 128;
const MAX_REASON = 1000;

function tenths(ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : Math.round(ms * 10) / 10;
}
