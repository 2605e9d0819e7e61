import type { AuditLog } from "../approval/audit/log.ts";
import { AuditTrail, type RequestNotes } from "../approval/audit/trail.ts";
import type { GateDecision } from "../approval/gate.ts";
import type { ApprovalCall } from "../approval/request.ts";
import { ToolCallError } from "../base/errors.ts";
import {
  captureTrace,
  type McpRequest,
  recordsSpans,
  traceMcpRequest,
  type Within,
} from "../base/telemetry.ts";
import type { ServerEvents } from "../servers/events.ts";

/** Tells of each call: in the audit log, to whoever follows calls, and in the execution's trace. */
export class CallReporter {
  readonly #trail: AuditTrail;
  readonly #events: ServerEvents;
  #withinExecution: Within = (work) => work();

  constructor(audit: AuditLog | undefined, events: ServerEvents) {
    this.#trail = new AuditTrail(audit);
    this.#events = events;
  }

  /** Tells which code makes the calls from now on. The span that is running is its execution's. */
  enterCell(code: string): void {
    this.#trail.setCode(code); // threads that it leaves go on calling
    this.#withinExecution = captureTrace();
  }

  /** Makes a call and tells of it. */
  report<T>(
    call: ApprovalCall,
    run: (notes: RequestNotes) => Promise<T>,
    statusOf?: (result: T) => string,
  ): Promise<T> {
    return this.#withinExecution(() => this.#record(call, run, statusOf));
  }

  /**
   * Makes a call that is a request to a server, within a span that tells what was decided of it.
   */
  reportRequest<T>(
    call: ApprovalCall,
    request: Pick<McpRequest, "method" | "target" | "params">,
    run: (notes: RequestNotes) => Promise<T>,
    failed: (result: T) => boolean = () => false,
  ): Promise<T> {
    const { serverName, callId } = call;
    const statusOf = (result: T) => failed(result) ? "tool_error" : "ok";
    if (!recordsSpans()) return this.#record(call, run, statusOf); // each layer costs each call
    return this.#withinExecution(() =>
      traceMcpRequest({ ...request, serverName, callId }, (span) => {
        const traced = (notes: RequestNotes): RequestNotes => ({
          ...notes,
          onDecision: (made) => {
            span.set({ "ipybox.approval.decision": made.decision, "ipybox.approval.by": made.by });
            notes.onDecision(made);
          },
        });
        return this.#record(call, (notes) => run(traced(notes)), statusOf);
      }, failed)
    );
  }

  /** Notes a call in the audit log, and tells whoever follows calls. */
  async #record<T>(
    call: ApprovalCall,
    run: (notes: RequestNotes) => Promise<T>,
    statusOf?: (result: T) => string,
  ): Promise<T> {
    using watch = new CallWatch(this.#events, call);
    const result = await watch.run(() =>
      this.#trail.record(
        call,
        (notes) => run({ ...notes, onDecision: (made) => watch.decided(made, notes.onDecision) }),
        statusOf,
      )
    );
    watch.status = statusOf?.(result) ?? "ok";
    return result;
  }
}

/** Tells when a call begins and, when it is disposed, how it ended. */
class CallWatch implements Disposable {
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
