import { messageOf } from "../base/message_of.ts";
import { type Logger, silentLogger } from "../base/log.ts";
import { canonicalJson, sha256 } from "../json/digest.ts";
import type { ExactObject } from "../json/exact.ts";
import { describeCall, isTooLargeToShow, quoted, shortened } from "./call_text.ts";
import { type Pattern, type PatternJudge, patternText } from "./pattern.ts";
import type { ApprovalCall, ApprovalKind, Remember, RememberScope } from "./request.ts";

/** A store for consents that outlive the process. */
export interface ConsentStore {
  /** The consents in force. */
  list(): Promise<readonly Consent[]>;
  /** Adds a consent and removes those that it replaces. */
  add(consent: Consent, replaced: (earlier: Consent) => boolean): Promise<void>;
}

/** Options of {@linkcode Consents}. */
interface ConsentsOptions {
  /** Stores the consents that outlive the process; without it, none do. */
  readonly store?: ConsentStore;
  /** Formats a call for people, without secrets. */
  readonly describe?: (call: ApprovalCall) => string;
  /** Proposes patterns and judges calls by them; without it, none are proposed. */
  readonly patterns?: PatternJudge;
  /** Receives warnings about decisions that cannot be remembered. */
  readonly log?: Logger;
}

/** The consent that applies to a call, if any. */
type Recollection =
  | {
    readonly decision: "allow" | "deny";
    /** A description of the consent. */
    readonly rule: string;
  }
  | {
    /** No consent applies. */
    readonly decision: undefined;
    /** The changes since a consent was given that invalidated it; `undefined` without a consent. */
    readonly changes: readonly string[] | undefined;
  };

/** Options of {@linkcode Consents.recall}. */
interface RecallOptions {
  /** Whether a permission must be for exactly these arguments. */
  readonly exactly?: boolean;
}

/** The execution that asks. */
export type Cell = symbol;

/** The most decisions to remember for a session, and for an execution. */
const MAX_REMEMBERED = 1000;

/** The most changes to list. */
const MAX_CHANGES = 20;

/**
 * The remembered decisions. Each is bound to properties of the server and tool, and lapses when
 * they change.
 */
export class Consents {
  readonly #options: ConsentsOptions;
  readonly #log: Logger;
  readonly #watchers = new Set<(consent: Consent) => Promise<void>>();
  #session: Consent[] = [];
  #ofCell: Consent[] = [];
  #cell: Cell | undefined;

  /** @param options The store, the format of calls, and the log. */
  constructor(options: ConsentsOptions = {}) {
    this.#options = options;
    this.#log = options.log ?? silentLogger;
  }

  /** The current execution, if there is one. */
  get cell(): Cell | undefined {
    return this.#cell;
  }

  /** For how long a decision can be remembered now. */
  get scopes(): readonly RememberScope[] {
    return [
      ...(this.#cell === undefined ? [] : ["cell"] as const),
      "session",
      ...(this.#options.store === undefined ? [] : ["always"] as const),
    ];
  }

  /** The pattern that a decision on a call can be remembered for. */
  propose(call: ApprovalCall): Pattern | undefined {
    return this.#options.patterns?.propose(call);
  }

  /** Whether a consent applies to a call, as long as server and tool are unchanged. */
  isFor(consent: Consent, call: ApprovalCall): boolean {
    return isFor(consent, call, this.#options.patterns);
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

  /** Forgets the decisions for the session. */
  reset(): void {
    this.#session = [];
    this.#ofCell = [];
  }

  /** Looks up a decision on a call. Refusals take precedence over permissions. */
  async recall(
    call: ApprovalCall,
    fingerprint: readonly FingerprintPart[],
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
      if (!this.isFor(consent, call)) continue;
      if (exactly && consent.decision === "allow" && consent.arguments === undefined) continue;
      const since = changesSince(consent, fingerprint);
      if (since.length > 0) changes = since;
      else {
        const found = { decision: consent.decision, rule: consentRule(consent, scope) };
        if (consent.decision === "deny") return found;
        allowed ??= found;
      }
    }
    return allowed ?? { decision: undefined, changes: limited(changes) };
  }

  /** Remembers a decision. Never fails: one that cannot be stored counts for this call only. */
  async remember(decided: Decided, remember: Remember, cell: Cell | undefined): Promise<void> {
    const { match } = remember;
    if (match === "arguments" && isTooLargeToShow(decided.call)) {
      // Without a hash of its arguments, it would apply to any arguments
      this.#log.warn(
        "These arguments are too large to remember: the decision applies to one call only",
      );
      return;
    }
    const consent = makeConsent(decided, match, this.#options.describe);
    const stays = (earlier: Consent) => !isReplaced(earlier, consent, decided.call);
    const withIt = (earlier: readonly Consent[]) => {
      const all = [...earlier.filter(stays), consent];
      if (all.length <= MAX_REMEMBERED) return all;
      this.#log.warn(`Remembered ${MAX_REMEMBERED} decisions; this one applies to one call only`);
      return [...earlier];
    };
    switch (remember.scope) {
      case "cell":
        if (cell === undefined || cell !== this.#cell) return; // the execution is over
        this.#ofCell = withIt(this.#ofCell);
        break;
      case "session":
        this.#session = withIt(this.#session);
        break;
      case "always":
        try {
          await this.#options.store?.add(consent, (earlier) => !stays(earlier));
        } catch (error) {
          const message = messageOf(error);
          this.#log.error(`Cannot remember a decision, so it applies to one call only: ${message}`);
        }
    }
    await Promise.all([...this.#watchers].map((watcher) => watcher(consent)));
  }

  /** Calls back with each decision that is remembered, and awaits the callback, until disposed. */
  watch(watcher: (consent: Consent) => Promise<void>): Disposable {
    this.#watchers.add(watcher);
    return { [Symbol.dispose]: () => void this.#watchers.delete(watcher) };
  }
}

function limited(changes: readonly string[] | undefined): readonly string[] | undefined {
  if (changes === undefined || changes.length <= MAX_CHANGES) return changes;
  const more = changes.length - MAX_CHANGES;
  return [...changes.slice(0, MAX_CHANGES), `and ${more} more changes`];
}

/** A property that must not change for a consent to count. */
export interface FingerprintPart {
  /** Its name for people, such as `command` or `parameter 'path'`. */
  readonly name: string;
  /** Whether it is a property of the server's registration or of the tool's definition. */
  readonly about: "server" | "tool";
  /** Its current value. */
  readonly value: string;
  /** The value for people; absent if it may be secret. */
  readonly shown?: string;
}

/** A part as stored with a consent: its hash, and the text that people may see. */
interface KeptPart {
  /** Whether it is a property of the server's registration or of the tool's definition. */
  readonly about: "server" | "tool";
  /** The SHA-256 of the consent's salt, the part's name and the SHA-256 of its value. */
  readonly hash: string;
  /** The beginning of the value for people. */
  readonly shown?: string;
}

/** A remembered decision. */
export interface Consent {
  /** A random id. */
  readonly id: string;
  readonly decision: "allow" | "deny";
  /** The subject of the call. */
  readonly kind: ApprovalKind;
  readonly server: string;
  readonly tool: string;
  /** The call as decided, for people; only if exactly these arguments count. */
  readonly call?: string;
  /** The salted hash of the arguments; absent unless exactly these count. */
  readonly arguments?: string;
  /** The pattern of the calls that count; absent if any arguments count, or exactly these. */
  readonly where?: Pattern;
  /** Why calls are denied. */
  readonly reason?: string;
  /** When it was decided, in ISO 8601 format. */
  readonly since: string;
  /** Random text included in all hashes, so that equal secrets have different hashes. */
  readonly salt: string;
  /** The parts of the fingerprint that it is bound to, by name. */
  readonly bound: Readonly<Record<string, KeptPart>>;
}

/** A call and the decision on it. */
interface Decided {
  readonly call: ApprovalCall;
  /** The properties of the server and the tool. */
  readonly fingerprint: readonly FingerprintPart[];
  readonly decision: "allow" | "deny";
  /** Why calls are denied. */
  readonly reason?: string;
  /** The pattern that was proposed with the call. */
  readonly pattern?: Pattern | undefined;
}

/** The most characters of a part to show. */
const MAX_SHOWN = 1000;
/** The most characters of a call to show. */
const MAX_CALL = 300;

/** Creates the consent for a decision. */
export function makeConsent(
  decided: Decided,
  match: Remember["match"],
  describe: (call: ApprovalCall) => string = describeCall,
): Consent {
  const { call, fingerprint, decision, reason, pattern } = decided;
  if (match === "pattern" && pattern === undefined) {
    throw new TypeError("No pattern was proposed for this call");
  }
  const isExact = match === "arguments";
  const salt = crypto.randomUUID();
  const bound = fingerprint.map(({ name, about, value, shown }): [string, KeptPart] => [
    name,
    { about, hash: saltedHash(salt, name, sha256(value)), shown: shown?.slice(0, MAX_SHOWN) },
  ]);
  return {
    id: crypto.randomUUID().slice(0, 8),
    decision,
    kind: call.kind,
    server: call.serverName,
    tool: call.toolName,
    call: isExact ? shortened(describe(call), MAX_CALL) : undefined,
    arguments: isExact ? argumentsHash(salt, call) : undefined,
    where: match === "pattern" ? pattern : undefined,
    reason,
    since: new Date().toISOString(),
    salt,
    bound: Object.fromEntries(bound),
  };
}

/** Whether a consent applies to a call, as long as server and tool are unchanged. */
export function isFor(consent: Consent, call: ApprovalCall, patterns?: PatternJudge): boolean {
  return isForTool(consent, call) && isForArguments(consent, call) &&
    (consent.where === undefined || patterns?.matches(consent, call) === true);
}

function isForTool(consent: Consent, call: ApprovalCall): boolean {
  return consent.kind === call.kind && consent.server === call.serverName &&
    consent.tool === call.toolName;
}

function isForArguments(consent: Consent, call: ApprovalCall): boolean {
  return consent.arguments === undefined ||
    consent.arguments === argumentsHash(consent.salt, call);
}

/** Whether a new consent, for a call, replaces an earlier one. */
function isReplaced(earlier: Consent, consent: Consent, call: ApprovalCall): boolean {
  return isForTool(earlier, call) && isForArguments(earlier, call) &&
    (earlier.arguments === undefined) === (consent.arguments === undefined) &&
    JSON.stringify(earlier.where) === JSON.stringify(consent.where);
}

/** Lists the changes since a consent was given. It counts only without any. */
export function changesSince(consent: Consent, fingerprint: readonly FingerprintPart[]): string[] {
  const changes: string[] = [];
  const now = new Set<string>();
  for (const part of fingerprint) {
    const { name, shown } = part;
    now.add(name);
    const kept = Object.hasOwn(consent.bound, name) ? consent.bound[name] : undefined;
    if (kept === undefined) changes.push(`${name} was added`);
    else if (kept.hash !== saltedHash(consent.salt, name, valueDigest(part))) {
      changes.push(changed(name, kept.shown, shown));
    }
  }
  for (const name of Object.keys(consent.bound)) {
    if (!now.has(name)) changes.push(`${name} was removed`);
  }
  return changes;
}

/** Describes a consent for logs and for the calling code. */
export function consentRule(consent: Consent, scope: RememberScope): string {
  const calls = consent.where !== undefined
    ? patternText(consent.where)
    : `${consent.arguments === undefined ? "any" : "exactly these"} arguments`;
  const why = consent.reason === undefined ? "" : `: ${consent.reason}`;
  const how = scope === "always" ? `always (${consent.id})` : `for this ${scope}`;
  return `remembered ${how}, for ${calls}${why}`;
}

/** The hash of a call's arguments; `undefined` if nobody could have seen them. */
function argumentsHash(salt: string, call: ApprovalCall): string | undefined {
  const digest = argumentsDigests.getOrInsertComputed(
    call.arguments,
    () => isTooLargeToShow(call) ? undefined : sha256(canonicalJson(call.arguments)),
  );
  return digest && saltedHash(salt, "arguments", digest);
}

function valueDigest(part: FingerprintPart): string {
  return valueDigests.getOrInsertComputed(part, () => sha256(part.value));
}

// Computed once: each waiting call is compared with each remembered decision
const argumentsDigests = new WeakMap<ExactObject, string | undefined>();
const valueDigests = new WeakMap<FingerprintPart, string>();

function saltedHash(salt: string, name: string, digest: string): string {
  return sha256(JSON.stringify([salt, name, digest]));
}

/** The most characters of a change to show, and of unchanged text before it. */
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
