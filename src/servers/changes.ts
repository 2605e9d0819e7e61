import { settledWithin } from "../base/signals.ts";
import type { Logger } from "../base/log.ts";

/** Updates the Python API of a server. */
type Renew = (serverName: string) => Promise<void>;

/** How long calls and cells wait for the update of a server's API. */
const PATIENCE_MS = 5000;
/**
 * How often the API of one server is updated in a row: some report a change whenever tools are
 * listed.
 */
const MAX_IN_A_ROW = 2;

/** Updates the Python APIs of servers that report changed tools. */
export class ToolChanges implements AsyncDisposable {
  readonly #log: Logger;
  readonly #changed = new Set<string>();
  /** The servers that have ever reported a change: their lists depend on their state. */
  readonly #changeable = new Set<string>();
  readonly #renewals = new Map<string, Promise<void>>();
  #renew: Renew | undefined;

  constructor(log: Logger) {
    this.#log = log;
  }

  /** The servers whose API has not been updated yet, sorted. */
  get servers(): string[] {
    return [...this.#changed].sort();
  }

  /** Updates APIs from now on. */
  follow(renew: Renew): void {
    this.#renew = renew;
  }

  /** Call this when a server reports that its tools changed. */
  add(serverName: string): void {
    this.#changeable.add(serverName);
    this.#changed.add(serverName);
    this.#begin(serverName);
  }

  /**
   * Call this when a server was started: if its tools changed before, it has its initial ones
   * again.
   */
  started(serverName: string): void {
    if (this.#changeable.has(serverName)) this.add(serverName);
  }

  /** Call this when a server was registered again or removed. */
  forget(serverName: string): void {
    this.#changed.delete(serverName);
    this.#changeable.delete(serverName);
  }

  /** Waits a few seconds for updates. */
  async settled(serverName?: string): Promise<void> {
    if (serverName === undefined) { for (const name of this.#changed) this.#begin(name); }
    else if (this.#changed.has(serverName)) this.#begin(serverName);
    const renewals = [...this.#renewals]
      .filter(([name]) => serverName === undefined || name === serverName)
      .map(([, renewal]) => renewal);
    if (renewals.length > 0) await settledWithin(Promise.all(renewals), PATIENCE_MS);
  }

  /** Stops updating APIs, once the running updates have ended. */
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
    for (let row = 0; row < MAX_IN_A_ROW; row++) {
      if (this.#renew !== renew || !this.#changed.has(serverName)) return;
      this.#changed.delete(serverName); // a later report is another change
      try {
        await renew(serverName);
      } catch (error) {
        if (this.#renew === undefined) return; // stopped
        this.#log.warn(`Cannot update the API of MCP server "${serverName}": ${error}`);
      }
    }
  }
}
