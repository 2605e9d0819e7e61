import type { GateDecision } from "../approval/gate.ts";
import type { ApprovalCall } from "../approval/request.ts";
import { ToolCallError } from "../errors.ts";
import type { ServerEvents } from "./server_events.ts";

/** Tells when a call begins and, when it is disposed, how it ended. */
export class CallWatch implements Disposable {
  /** How it ended. */
  status: string = "error";
  readonly #events: ServerEvents;
  readonly #callId: string;
  readonly #startedAt = performance.now();
  #decision: GateDecision | undefined;
  #waitMs: number | undefined;

  /** Tells that the call has begun. */
  constructor(events: ServerEvents, call: ApprovalCall) {
    const { kind, serverName, toolName, callId = crypto.randomUUID() } = call;
    this.#events = events;
    this.#callId = callId;
    events.tellCall({ type: "call_started", callId, kind, serverName, toolName });
  }

  /** Takes what was decided, and passes it on. */
  decided(decision: GateDecision, next: (decision: GateDecision) => void): void {
    this.#decision = decision;
    this.#waitMs = performance.now() - this.#startedAt;
    next(decision);
  }

  /** Runs the call and takes how it fails. */
  async run<T>(call: () => Promise<T>): Promise<T> {
    try {
      return await call();
    } catch (error) {
      if (error instanceof ToolCallError) this.status = error.type;
      throw error;
    }
  }

  [Symbol.dispose](): void {
    const { decision, by, reason } = this.#decision ?? {};
    this.#events.tellCall({
      type: "call_ended",
      callId: this.#callId,
      decision,
      by,
      reason,
      status: this.status,
      durationMs: performance.now() - this.#startedAt,
      waitMs: this.#waitMs,
    });
  }
}
