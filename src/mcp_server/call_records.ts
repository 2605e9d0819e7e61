import { visible } from "../approval/call_text.ts";
import type { CallEvent } from "../servers/events.ts";

/** The statuses of successful calls. Of shell commands, only the approval is known. */
const WENT_WELL: ReadonlySet<string> = new Set(["ok", "approved"]);
/** How many failed calls are named. */
const MAX_NAMED = 5;
/** The longest name that is shown; code can make up any. */
const MAX_NAME = 80;

/** The calls that a cell makes. */
export class CallRecords {
  readonly #running = new Map<string, { readonly server: string; readonly name: string }>();
  readonly #failed: string[] = [];
  #count = 0;
  #failures = 0;

  /** The running calls, in words; empty without any. */
  get running(): string {
    const [first, ...others] = this.#running.values();
    if (first === undefined) return "";
    return others.length === 0 ? first.name : `${first.name} and ${others.length} more`;
  }

  /** The servers of the running calls. */
  get servers(): string[] {
    return [...this.#running.values().map(({ server }) => server)];
  }

  /** The calls that were denied or failed, in one line; empty without any. */
  get failures(): string {
    if (this.#failures === 0) return "";
    const rest = this.#failures - this.#failed.length;
    const names = this.#failed.join(", ") + (rest > 0 ? ` and ${rest} more` : "");
    return `[${this.#failures} of ${this.#count} calls denied or failed: ${names}]`;
  }

  /** Records the beginning or the end of a call. */
  take(event: CallEvent): void {
    switch (event.type) {
      case "call_started": {
        const { callId, serverName: server, toolName: tool } = event;
        this.#count++;
        this.#running.set(callId, { server, name: `${server}.${tool}` });
        return;
      }
      case "call_ended": {
        const { name } = this.#running.get(event.callId) ?? { name: "" };
        this.#running.delete(event.callId);
        if (!WENT_WELL.has(event.status)) this.#fail(name, event.status);
      }
    }
  }

  #fail(name: string, status: string): void {
    this.#failures++;
    if (this.#failed.length >= MAX_NAMED) return;
    this.#failed.push(`${visible(name.slice(0, MAX_NAME).toWellFormed())} (${status})`);
  }
}
