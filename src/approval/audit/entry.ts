import type { ExactObject } from "../../json/exact.ts";
import { sha256 } from "../../json/digest.ts";
import { redactArguments, type RedactOptions, summaryOf } from "./redact.ts";

/** One request: what was asked, what was decided, and, where that is known already, how it ended. */
export interface AuditEntry {
  /** The request's id, the same as at the approver. */
  readonly id: string;
  /** When it came. */
  readonly time: Date;
  /** The SHA-256 of the code that made it, as far as that is known. */
  readonly codeHash?: string;
  /** What asked, as in `ApprovalRequest.kind`, or `"input"` for code that asked a person. */
  readonly kind: string;
  /** The call during which a server asked a person. */
  readonly callId?: string;
  /** The registered server. */
  readonly server: string;
  /** The tool. */
  readonly tool: string;
  /** The SHA-256 of how the server is started or reached, in the words that approvers see. */
  readonly serverHash?: string;
  /** The SHA-256 of the tool's definition, with the names in its objects sorted. */
  readonly toolHash?: string;
  /** The arguments; secrets are left out of the log. */
  readonly arguments: ExactObject;
  /** The arguments that an approver put in their place. */
  readonly edited?: ExactObject;
  /** The decision; absent if the call failed before it. A question that was answered is allowed. */
  readonly decision?: "allow" | "deny";
  /**
   * Who decided: `"policy"`, a remembered `"consent"`, `"approver"`, or why nobody did; for a question,
   * who answered.
   */
  readonly by?: string;
  /** The rule, what is remembered, or the approver's reason. */
  readonly reason?: string;
  /** How long the decision took, in milliseconds. */
  readonly waitMs?: number;
  /**
   * How it ended: `"ok"`, the type of the error, or what became of a question. Absent in the line that
   * is written before a call is sent; an {@linkcode AuditOutcome} follows that one.
   */
  readonly status?: string;
  /** How long it took in all, in milliseconds. */
  readonly durationMs?: number;
}

/** How a request ended whose {@linkcode AuditEntry} was written before it did. */
export interface AuditOutcome {
  /** The request's id. */
  readonly id: string;
  /** When it ended. */
  readonly time: Date;
  /** `"ok"`, or the type of the error. */
  readonly status: string;
  /** How long it took in all, in milliseconds. */
  readonly durationMs: number;
}

/** What a line of the log says, beside its place in the chain. */
export type Fields = Readonly<Record<string, unknown>>;

/** Makes the line of a request. */
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

/** Makes the line of an outcome. */
export function outcomeFields({ id, time, status, durationMs }: AuditOutcome): Fields {
  return { time: time.toISOString(), outcome: id, status, durationMs: tenths(durationMs) };
}

/** Makes the line of a request smaller: of its arguments, only their size and hash stay. */
export function withoutDetails(fields: Fields): Fields {
  const { arguments: args, edited } = fields;
  return {
    ...fields,
    arguments: summaryOf(args),
    edited: edited === undefined ? undefined : summaryOf(edited),
  };
}

/**
 * Cuts a name that executed code made up. What was cut leaves the length and a hash of the whole.
 */
export function boundedName(name: string): string {
  if (name.length <= MAX_NAME) return name;
  return `${name.slice(0, MAX_NAME)}…[cut:${name.length}:${sha256(name).slice(0, 16)}]`;
}

const MAX_NAME = 128;
const MAX_REASON = 1000;

function tenths(ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : Math.round(ms * 10) / 10;
}
