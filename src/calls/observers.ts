import type { CallObserver, ObservedCall } from "../approval/observed_call.ts";
import { ToolCallError } from "../base/errors.ts";
import { recordsSpans, type Span, startMcpSpan } from "../base/telemetry.ts";
import type { ServerEvents } from "../servers/events.ts";

/** Passes the beginning and the end of each call on to the application. */
export class CallEvents implements CallObserver {
  readonly #events: ServerEvents;

  constructor(events: ServerEvents) {
    this.#events = events;
  }

  begun({ id: callId, call: { kind, serverName, toolName } }: ObservedCall): void {
    this.#events.tellCall({ type: "call_started", callId, kind, serverName, toolName });
  }

  ended(call: ObservedCall): void {
    const { id: callId, status = "error", durationMs = 0, waitMs } = call;
    const { decision, by, reason } = call.decision ?? {};
    this.#events.tellCall({
      type: "call_ended",
      callId,
      decision,
      by,
      reason,
      status,
      durationMs,
      waitMs,
    });
  }
}

/** Makes a span of each request to a server, which says what was decided and how it ended. */
export class CallSpans implements CallObserver {
  readonly #spans = new WeakMap<ObservedCall, Span>();

  begun(call: ObservedCall): void {
    const { id: callId, request } = call;
    if (request === undefined || !recordsSpans()) return;
    const span = call.within(() => startMcpSpan({ ...request, callId }));
    this.#spans.set(call, span);
    call.within = (work) => span.run(work);
  }

  decided(call: ObservedCall): void {
    const { decision, by } = call.decision ?? {};
    this.#spans.get(call)?.set({ "ipybox.approval.decision": decision, "ipybox.approval.by": by });
  }

  ended(call: ObservedCall): void {
    using span = this.#spans.get(call);
    if (span === undefined || call.status === "ok") return;
    const { error, status = "error" } = call;
    const code = error instanceof ToolCallError ? error.details.code : undefined;
    if (code !== undefined) span.set({ "rpc.response.status_code": `${code}` });
    span.fail(code?.toString() ?? (status === "error" ? "_OTHER" : status));
  }
}
