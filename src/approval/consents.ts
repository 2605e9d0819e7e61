import { type Logger, silentLogger } from "../log.ts";
import {
  changesSince,
  type Consent,
  consentRule,
  type Decided,
  type Facet,
  isFor,
  isReplaced,
  makeConsent,
} from "./consent.ts";
import type { ApprovalCall, Remember, RememberScope } from "./request.ts";

/** Where consents outlive the process. */
export interface ConsentStore {
  /** The consents that count. */
  list(): Promise<readonly Consent[]>;
  /** Adds a consent, in place of those that it takes the place of. */
  add(consent: Consent, replaced: (earlier: Consent) => boolean): Promise<void>;
  /** Takes what was written elsewhere meanwhile. */
  reload(): Promise<void>;
}

/** Options of {@linkcode Consents}. */
export interface ConsentsOptions {
  /** Keeps what counts always; without it nothing does. */
  readonly store?: ConsentStore | undefined;
  /** Writes a call for people, without secrets. */
  readonly describe?: ((call: ApprovalCall) => string) | undefined;
  /** Told what cannot be remembered. */
  readonly log?: Logger | undefined;
}

/** What is remembered of a call. */
export type Recollection =
  | {
    /** What was decided. */
    readonly decision: "allow" | "deny";
    /** The consent's name. */
    readonly rule: string;
  }
  | {
    /** Nothing that counts. */
    readonly decision: undefined;
    /** What changed since the consent that lapsed by it; `undefined` where none did. */
    readonly changes: readonly string[] | undefined;
  };

/** The execution that asks. */
export type Cell = symbol;

/** The most lines of what changed. */
const MAX_CHANGES = 20;

/**
 * The decisions that are remembered: for the execution under way, for the session, and always.
 *
 * Each is bound to what the server and the tool are like: when that changes, it lapses.
 */
export class Consents {
  readonly #options: ConsentsOptions;
  readonly #log: Logger;
  readonly #watchers = new Set<() => void>();
  #session: Consent[] = [];
  #ofCell: Consent[] = [];
  #cell: Cell | undefined;

  /** @param options What keeps consents for longer. */
  constructor(options: ConsentsOptions = {}) {
    this.#options = options;
    this.#log = options.log ?? silentLogger;
  }

  /** The execution under way, if there is one. */
  get cell(): Cell | undefined {
    return this.#cell;
  }

  /** How long a decision can be remembered now. */
  get scopes(): readonly RememberScope[] {
    return [
      ...(this.#cell === undefined ? [] : ["cell"] as const),
      "session",
      ...(this.#options.store === undefined ? [] : ["always"] as const),
    ];
  }

  /** Begins an execution. */
  enterCell(): Disposable {
    const cell = Symbol("cell");
    this.#cell = cell;
    this.#ofCell = [];
    return {
      [Symbol.dispose]: () => {
        if (this.#cell !== cell) return;
        this.#cell = undefined;
        this.#ofCell = [];
      },
    };
  }

  /** Forgets what was remembered for the session, and takes what others remembered always. */
  async reset(): Promise<void> {
    this.#session = [];
    this.#ofCell = [];
    await this.#options.store?.reload();
  }

  /** Looks for a decision on a call. A refusal counts more than a permission. */
  async recall(call: ApprovalCall, facets: readonly Facet[]): Promise<Recollection> {
    const always = await this.#options.store?.list() ?? [];
    const all = [
      ...this.#ofCell.map((consent) => ({ consent, scope: "cell" as const })),
      ...this.#session.map((consent) => ({ consent, scope: "session" as const })),
      ...always.map((consent) => ({ consent, scope: "always" as const })),
    ];
    let allowed: Recollection | undefined;
    let changes: readonly string[] | undefined;
    for (const { consent, scope } of all) {
      if (!isFor(consent, call)) continue;
      const since = changesSince(consent, facets);
      if (since.length > 0) changes = since;
      else {
        const found = { decision: consent.decision, rule: consentRule(consent, scope) };
        if (consent.decision === "deny") return found;
        allowed ??= found;
      }
    }
    return allowed ?? { decision: undefined, changes: limited(changes) };
  }

  /**
   * Remembers a decision. Does not fail: what cannot be kept counts for this call only, and the log
   * is told.
   */
  async remember(decided: Decided, remember: Remember, cell: Cell | undefined): Promise<void> {
    const { match } = remember;
    const consent = makeConsent(decided, match, this.#options.describe);
    const stays = (earlier: Consent) => !isReplaced(earlier, decided.call, match);
    switch (remember.scope) {
      case "cell":
        if (cell === undefined || cell !== this.#cell) return; // its time is over
        this.#ofCell = [...this.#ofCell.filter(stays), consent];
        break;
      case "session":
        this.#session = [...this.#session.filter(stays), consent];
        break;
      case "always":
        try {
          await this.#options.store?.add(consent, (earlier) => !stays(earlier));
        } catch (error) {
          const message = error instanceof Error ? error.message : String(error);
          this.#log.error(`Cannot remember a decision, it counts for one call only: ${message}`);
        }
    }
    for (const watcher of this.#watchers) watcher();
  }

  /** Calls back whenever a decision was remembered, until disposed. */
  watch(watcher: () => void): Disposable {
    this.#watchers.add(watcher);
    return { [Symbol.dispose]: () => void this.#watchers.delete(watcher) };
  }
}

function limited(changes: readonly string[] | undefined): readonly string[] | undefined {
  if (changes === undefined || changes.length <= MAX_CHANGES) return changes;
  const more = changes.length - MAX_CHANGES;
  return [...changes.slice(0, MAX_CHANGES), `and ${more} more changes`];
}
