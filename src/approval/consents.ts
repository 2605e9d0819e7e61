import { messageOf } from "../base/message_of.ts";
import { type Logger, silentLogger } from "../base/log.ts";
import { canonicalJson, sha256 } from "../json/digest.ts";
import { describeCall, isTooLargeToShow, quoted } from "./call_text.ts";
import type { ApprovalCall, ApprovalKind, Remember, RememberScope } from "./request.ts";

/** Where consents outlive the process. */
export interface ConsentStore {
  /** The consents that count. */
  list(): Promise<readonly Consent[]>;
  /** Adds a consent, in place of those that it takes the place of. */
  add(consent: Consent, replaced: (earlier: Consent) => boolean): Promise<void>;
  /** Reads what has been written elsewhere since. */
  reload(): Promise<void>;
}

/** Options of {@linkcode Consents}. */
interface ConsentsOptions {
  /** Keeps what counts always; without it nothing does. */
  readonly store?: ConsentStore;
  /** Writes a call for people, without secrets. */
  readonly describe?: (call: ApprovalCall) => string;
  /** Called with what cannot be remembered. */
  readonly log?: Logger;
}

/** What is remembered of a call. */
type Recollection =
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

/** Options of {@linkcode Consents.recall}. */
interface RecallOptions {
  /** Whether a permission counts only if it is for exactly these arguments. */
  readonly exactly?: boolean;
}

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
  async recall(
    call: ApprovalCall,
    facets: readonly Facet[],
    { exactly = false }: RecallOptions = {},
  ): Promise<Recollection> {
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
      if (exactly && consent.decision === "allow" && consent.arguments === undefined) continue;
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
          const message = messageOf(error);
          this.#log.error(`Cannot remember a decision, so it applies to one call only: ${message}`);
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

/** One of the things that must stay as they are for a consent to count. */
export interface Facet {
  /** What it is, in words for people, such as `command` or `parameter 'path'`. */
  readonly name: string;
  /** Whether the server is registered so, or the tool is defined so. */
  readonly about: "server" | "tool";
  /** What it is now. */
  readonly value: string;
  /** The same for people; absent where it may be secret. */
  readonly shown?: string;
}

/** A facet as a consent keeps it: its hash, and what people may see of it. */
interface KeptFacet {
  /** Whether the server is registered so, or the tool is defined so. */
  readonly about: "server" | "tool";
  /** The SHA-256 of the consent's salt, the facet's name and its value. */
  readonly hash: string;
  /** The start of what people may see of it. */
  readonly shown?: string;
}

/** A decision that is remembered. */
export interface Consent {
  /** Identifies it; random. */
  readonly id: string;
  /** What was decided. */
  readonly decision: "allow" | "deny";
  /** What asks. */
  readonly kind: ApprovalKind;
  /** The registered server. */
  readonly server: string;
  /** The tool. */
  readonly tool: string;
  /** The call as it was decided, for people; only where exactly these arguments count. */
  readonly call?: string;
  /** The salted hash of the arguments; absent where any count. */
  readonly arguments?: string;
  /** Why it is denied. */
  readonly reason?: string;
  /** When it was decided, in ISO 8601. */
  readonly since: string;
  /** Random text that goes into all hashes, so that equal secrets do not look equal. */
  readonly salt: string;
  /** What it is bound to, by name. */
  readonly bound: Readonly<Record<string, KeptFacet>>;
}

/** What is decided of which call. */
interface Decided {
  /** The call. */
  readonly call: ApprovalCall;
  /** What the server and the tool are like. */
  readonly facets: readonly Facet[];
  /** What was decided. */
  readonly decision: "allow" | "deny";
  /** Why it is denied. */
  readonly reason?: string;
}

/** How much of a facet people can see. */
const MAX_SHOWN = 1000;
/** How much of a call people can see. */
const MAX_CALL = 300;

/** Makes a consent of a decision. */
export function makeConsent(
  decided: Decided,
  match: Remember["match"],
  describe: (call: ApprovalCall) => string = describeCall,
): Consent {
  const { call, facets, decision, reason } = decided;
  const salt = crypto.randomUUID();
  const bound = facets.map(({ name, about, value, shown }): [string, KeptFacet] => [
    name,
    { about, hash: saltedHash(salt, name, value), shown: shown?.slice(0, MAX_SHOWN) },
  ]);
  return {
    id: crypto.randomUUID().slice(0, 8),
    decision,
    kind: call.kind,
    server: call.serverName,
    tool: call.toolName,
    call: match === "tool" ? undefined : shortened(describe(call), MAX_CALL),
    arguments: match === "tool" ? undefined : argumentsHash(salt, call),
    reason,
    since: new Date().toISOString(),
    salt,
    bound: Object.fromEntries(bound),
  };
}

/** Whether a consent is for a call, as long as server and tool are what they were. */
export function isFor(consent: Consent, call: ApprovalCall): boolean {
  return consent.kind === call.kind && consent.server === call.serverName &&
    consent.tool === call.toolName &&
    (consent.arguments === undefined ||
      !isTooLargeToShow(call) && consent.arguments === argumentsHash(consent.salt, call));
}

/** Whether a new decision on a call takes the place of a consent. */
function isReplaced(
  earlier: Consent,
  call: ApprovalCall,
  match: Remember["match"],
): boolean {
  return (earlier.arguments === undefined) === (match === "tool") && isFor(earlier, call);
}

/** Finds what changed since a consent was given. It counts only where nothing did. */
export function changesSince(consent: Consent, facets: readonly Facet[]): string[] {
  const changes: string[] = [];
  const now = new Set<string>();
  for (const { name, value, shown } of facets) {
    now.add(name);
    const kept = Object.hasOwn(consent.bound, name) ? consent.bound[name] : undefined;
    if (kept === undefined) changes.push(`${name} was added`);
    else if (kept.hash !== saltedHash(consent.salt, name, value)) {
      changes.push(changed(name, kept.shown, shown));
    }
  }
  for (const name of Object.keys(consent.bound)) {
    if (!now.has(name)) changes.push(`${name} was removed`);
  }
  return changes;
}

/** Names a consent for logs and for the code that called. */
export function consentRule(consent: Consent, scope: RememberScope): string {
  const match = consent.arguments === undefined ? "any" : "exactly these";
  const why = consent.reason === undefined ? "" : `: ${consent.reason}`;
  const how = scope === "always" ? `always (${consent.id})` : `for this ${scope}`;
  return `remembered ${how}, for ${match} arguments${why}`;
}

function argumentsHash(salt: string, call: ApprovalCall): string {
  return saltedHash(salt, "arguments", canonicalJson(call.arguments));
}

function saltedHash(salt: string, name: string, value: string): string {
  return sha256(JSON.stringify([salt, name, value]));
}

/** How much of what changed is shown, and how much that stayed before it. */
const MAX_CHANGE = 200;
const CONTEXT = 20;

function changed(name: string, before: string | undefined, after: string | undefined): string {
  if (before === undefined || after === undefined) return `${name} changed`;
  let same = 0;
  while (same < before.length && before[same] === after[same]) same++;
  const start = same > MAX_CHANGE / 2 ? same - CONTEXT : 0;
  if (same === MAX_SHOWN) return `${name} changed after its first ${MAX_SHOWN} characters`;
  return `${name} was ${excerpt(before, start)}, is ${excerpt(after, start)}`;
}

function excerpt(text: string, start: number): string {
  const before = start === 0 ? "" : "…";
  return `${before}${quoted(text.slice(start, start + MAX_CHANGE))}${
    text.length > start + MAX_CHANGE ? "…" : ""
  }`;
}

function shortened(text: string, max: number): string {
  return text.length <= max ? text : `${text.slice(0, max)}… (${text.length} characters)`;
}
