import { RateLimit } from "../base/rate_limit.ts";
import { settledWithin } from "../base/signals.ts";
import type { Logger } from "../base/log.ts";

/** Brings what was made of a server's tools up to date. */
type Renew = (serverName: string) => Promise<void>;

/** How long calls and cells wait until what was made of a server's tools is up to date. */
const PATIENCE_MS = 5000;
/** How often one server's tools are followed: it may report changes without end. */
const RENEWALS_PER_SECOND = 0.5;
const RENEWALS_AT_ONCE = 20;

/** Which servers' tools changed since their APIs were made, and who follows that. */
export class ToolChanges implements AsyncDisposable {
  readonly #log: Logger;
  readonly #changed = new Set<string>();
  /** The servers that ever reported a change: what they list depends on what was done before. */
  readonly #changeable = new Set<string>();
  readonly #renewals = new Map<string, Promise<void>>();
  readonly #limits = new Map<string, RateLimit>();
  #renew: Renew | undefined;

  /** @param log Receives what cannot be followed. */
  constructor(log: Logger) {
    this.#log = log;
  }

  /** The servers whose changes nobody followed yet, sorted. */
  get servers(): string[] {
    return [...this.#changed].sort();
  }

  /** Has changes followed from now on. */
  follow(renew: Renew): void {
    this.#renew = renew;
  }

  /** A server reports that its tools changed. */
  add(serverName: string): void {
    this.#changeable.add(serverName);
    this.#changed.add(serverName);
    this.#begin(serverName);
  }

  /** A server was started: one whose tools changed before has its first ones again. */
  started(serverName: string): void {
    if (this.#changeable.has(serverName)) this.add(serverName);
  }

  /** A server was registered again, or is no more. */
  forget(serverName: string): void {
    this.#changed.delete(serverName);
    this.#changeable.delete(serverName);
  }

  /** Waits for a while until changes have been followed. */
  async settled(serverName?: string): Promise<void> {
    if (serverName === undefined) { for (const name of this.#changed) this.#begin(name); }
    else if (this.#changed.has(serverName)) this.#begin(serverName);
    const renewals = [...this.#renewals]
      .filter(([name]) => serverName === undefined || name === serverName)
      .map(([, renewal]) => renewal);
    if (renewals.length > 0) await settledWithin(Promise.all(renewals), PATIENCE_MS);
  }

  /** Ends the following, once what is under way has ended. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#renew = undefined;
    await Promise.all(this.#renewals.values());
  }

  #begin(serverName: string): void {
    const renew = this.#renew;
    if (renew === undefined || this.#renewals.has(serverName)) return;
    const renewal = this.#follow(serverName, renew)
      .finally(() => this.#renewals.delete(serverName));
    this.#renewals.set(serverName, renewal);
  }

  async #follow(serverName: string, renew: Renew): Promise<void> {
    while (
      this.#renew === renew && this.#changed.has(serverName) && this.#limit(serverName).take()
    ) {
      this.#changed.delete(serverName); // what is reported from here on is another change
      try {
        await renew(serverName);
      } catch (error) {
        if (this.#renew === undefined) return; // it was given up
        this.#log.warn(`Cannot update the API of MCP server "${serverName}": ${error}`);
      }
    }
  }

  #limit(serverName: string): RateLimit {
    return this.#limits.getOrInsertComputed(
      serverName,
      () => new RateLimit(RENEWALS_PER_SECOND, RENEWALS_AT_ONCE),
    );
  }
}
