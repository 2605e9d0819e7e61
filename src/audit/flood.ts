import { RateLimit } from "../async/rate_limit.ts";
import type { AuditEntry, Fields } from "./audit_entry.ts";

/** Refusals in full: so many characters at once, and in the long run some 40 MB a day. */
const REFUSALS = { perSecond: 512, burst: 2 ** 18 } as const;
/** Arguments of calls that were allowed: so many characters at once, and 170 MB a day. */
const DETAILS = { perSecond: 2048, burst: 2 ** 24 } as const;
/** How many kinds of refusals are counted apart. */
const MAX_KINDS = 20;
const MAX_NAME = 100;

/** A kind of refusals, and how many there were. */
interface Counted {
  readonly kind: string;
  readonly server: string;
  readonly tool: string;
  readonly by?: string | undefined;
  readonly status?: string | undefined;
  count: number;
}

/**
 * Keeps executed code from filling the log, and thereby from pushing older lines out of it.
 *
 * Refusals, which cost it nothing, are written until they are too many; the others are counted. What
 * was allowed is always written, but of its arguments only the hash once they are too much.
 */
export class FloodGuard {
  readonly #refusals = new RateLimit(REFUSALS.perSecond, REFUSALS.burst);
  /** What approvers rejected has a budget of its own, which no other refusal uses up. */
  readonly #rejections = new RateLimit(REFUSALS.perSecond, REFUSALS.burst);
  readonly #details = new RateLimit(DETAILS.perSecond, DETAILS.burst);
  #counted = new Map<string, Counted>();
  #since: Date | undefined;

  /**
   * Decides how much of a request is written.
   *
   * @param entry The request.
   * @param size How many characters its line has.
   * @returns `"count"` where it was counted instead.
   */
  judge(entry: AuditEntry, size: number): "all" | "shorter" | "count" {
    if (entry.decision === "allow") {
      return entry.by === "approver" || this.#details.take(size) ? "all" : "shorter";
    }
    const budget = entry.by === "approver" ? this.#rejections : this.#refusals;
    if (budget.take(size)) return "all";
    this.#count(entry);
    return "count";
  }

  /**
   * Tells of what was counted, and begins anew.
   *
   * @returns What the line says, or `undefined` where nothing was counted.
   */
  takeSummary(): Fields | undefined {
    const since = this.#since;
    if (since === undefined) return undefined;
    const requests = [...this.#counted.values()];
    this.#counted = new Map();
    this.#since = undefined;
    const count = requests.reduce((sum, { count }) => sum + count, 0);
    return {
      time: new Date().toISOString(),
      leftOut: { count, since: since.toISOString(), requests },
    };
  }

  #count({ time, kind, server, tool, by, status }: AuditEntry): void {
    this.#since ??= time;
    const named = {
      kind,
      server: server.slice(0, MAX_NAME),
      tool: tool.slice(0, MAX_NAME),
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
