import { sha256 } from "../json/digest.ts";
import { RateLimit } from "../async/rate_limit.ts";
import { type AuditEntry, boundedName, type Fields } from "./audit_entry.ts";

/** Some 3 MB a day for each budget: in 90 days, code that uses up all of its own writes 1 GB. */
const PER_SECOND = 32;
/** So many bytes at once of refusals in full, and of the kinds of what was counted. */
const SMALL_BURST = 2 ** 18;
/** So many bytes at once of calls that were allowed, with their arguments and then without. */
const LARGE_BURST = 2 ** 24;
/** What chaining adds to a line, and what the outcome of an allowed call takes. */
const CHAINED_BYTES = 200;
const OUTCOME_BYTES = 500;
/** How many kinds of requests are counted apart. */
const MAX_KINDS = 20;

/** A kind of requests, and how many there were. */
interface Counted {
  readonly kind: string;
  readonly server: string;
  readonly tool: string;
  readonly decision?: "allow" | "deny" | undefined;
  readonly by?: string | undefined;
  readonly status?: string | undefined;
  count: number;
}

/** How many bytes may be written of requests. */
class Budgets {
  readonly refusals = new RateLimit(PER_SECOND, SMALL_BURST);
  readonly details = new RateLimit(PER_SECOND, LARGE_BURST);
  readonly lines = new RateLimit(PER_SECOND, LARGE_BURST);
}

/**
 * Keeps executed code from filling the log, and thereby from pushing older lines out of it.
 *
 * Requests are written until they are too many; the others are counted. Those that were allowed are
 * first written without their arguments.
 */
export class FloodGuard {
  readonly #budgets = new Budgets();
  /** What approvers decided has budgets of its own, which nothing else uses up. */
  readonly #approvers = new Budgets();
  readonly #kinds = new RateLimit(PER_SECOND, SMALL_BURST);
  #counted = new Map<string, Counted>();
  #span: { readonly since: Date; until: Date; sha256: string } | undefined;

  /** Decides how much of a request is written. */
  judge(entry: AuditEntry, text: string, shorter: () => string): string | undefined {
    const budgets = entry.by === "approver" ? this.#approvers : this.#budgets;
    if (entry.decision !== "allow") {
      if (budgets.refusals.take(bytesOf(text))) return text;
    } else {
      if (budgets.details.take(bytesOf(text) + OUTCOME_BYTES)) return text;
      const short = shorter();
      if (budgets.lines.take(bytesOf(short) + OUTCOME_BYTES)) return short;
    }
    this.#count(entry, text);
    return undefined;
  }

  /** Tells of what was counted, and begins anew. */
  takeSummary(): Fields | undefined {
    const span = this.#span;
    if (span === undefined) return undefined;
    const kinds = [...this.#counted.values()];
    this.#counted = new Map();
    this.#span = undefined;
    const count = kinds.reduce((sum, { count }) => sum + count, 0);
    const requests = this.#kinds.take(bytesOf(JSON.stringify(kinds))) ? kinds : undefined;
    return {
      time: new Date().toISOString(),
      leftOut: {
        count,
        since: span.since.toISOString(),
        until: span.until.toISOString(),
        last: span.sha256,
        requests,
      },
    };
  }

  #count({ time, kind, server, tool, decision, by, status }: AuditEntry, text: string): void {
    this.#span ??= { since: time, until: time, sha256: "" };
    this.#span.until = time;
    this.#span.sha256 = sha256(text);
    const named = {
      kind,
      server: boundedName(server),
      tool: boundedName(tool),
      decision,
      by,
      status,
    };
    const full = this.#counted.size >= MAX_KINDS && !this.#counted.has(JSON.stringify(named));
    const shown = full ? OTHERS : named;
    const key = JSON.stringify(shown);
    const counted = this.#counted.get(key);
    if (counted === undefined) this.#counted.set(key, { ...shown, count: 1 });
    else counted.count++;
  }
}

/** What stands for kinds that are too many. */
const OTHERS = { kind: "…", server: "…", tool: "…" } as const;

function bytesOf(text: string): number {
  return new TextEncoder().encode(text).length + CHAINED_BYTES;
}
