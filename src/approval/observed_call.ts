import { ToolCallError } from "../base/errors.ts";
import {
  type McpRequest,
  recordsSpans,
  type Span,
  startMcpSpan,
  type Within,
} from "../base/telemetry.ts";
import { type GateDecision, refusalOf } from "./gate.ts";
import type { ApprovalCall } from "./request.ts";

/** Follows calls. Each step is reported before the next one begins. */
export interface CallObserver {
  /** A call has begun. */
  begun?(call: ObservedCall): void;
  /** It was decided on. */
  decided?(call: Readonly<ObservedCall>): void;
  /** It is about to be sent, or left to its caller. A rejection ends it instead. */
  sending?(call: Readonly<ObservedCall>): void | Promise<void>;
  /** It has ended, in whatever way. */
  ended?(call: Readonly<ObservedCall>): void;
}

/** Identifies what a call reaches: equal hashes are the same server and the same tool. */
export interface CallTarget {
  /** The SHA-256 of how the server is started or reached, in the words that approvers see. */
  readonly serverHash: string;
  /** The SHA-256 of the tool's definition, with the names in its objects sorted. */
  readonly toolHash?: string;
}

/** The execution that a call comes from. */
export interface CallOrigin {
  /** The SHA-256 of its code. */
  readonly codeHash: string;
  /** Does something as a part of its trace. */
  readonly within: Within;
}

/** What is known of a call when it begins. */
export interface CallBeginning {
  /** The execution that it comes from. */
  readonly origin?: CallOrigin;
  /** The request to a server that it is. */
  readonly request?: McpRequest;
}

/** A call under way: all that is known of it so far. Its observers learn of each step. */
export class ObservedCall {
  /** Identifies the call. */
  readonly id: string;
  /** The call, without what its log must not contain. */
  readonly call: ApprovalCall;
  /** The execution that it comes from. */
  readonly origin: CallOrigin | undefined;
  /** The request to a server that it is. */
  readonly request: McpRequest | undefined;
  /** When it began. */
  readonly time: Date = new Date();
  /** What it would reach, once that is known. */
  target: CallTarget | undefined;
  /** Does its work as a part of a trace. An observer that begins a span puts that in its place. */
  within: Within;

  /** What was decided, if anything was. */
  decision: GateDecision | undefined;
  /** How long the decision took, in milliseconds. */
  waitMs: number | undefined;
  /** How it ended: `"ok"`, `"approved"` if its caller does the rest, or the type of the error. */
  status: string | undefined;
  /** How long it took in all, in milliseconds, once it has ended. */
  durationMs: number | undefined;
  /** What it failed with. */
  error: unknown;

  readonly #observers: readonly CallObserver[];
  readonly #start = performance.now();

  constructor(
    call: ApprovalCall,
    observers: readonly CallObserver[],
    { origin, request }: CallBeginning = {},
  ) {
    this.id = call.callId ?? crypto.randomUUID();
    this.call = call;
    this.origin = origin;
    this.request = request;
    this.within = origin?.within ?? ((work) => work());
    this.#observers = observers;
    for (const observer of observers) observer.begun?.(this);
  }

  /** Does the work of the call, and ends it. */
  async run<T>(work: () => Promise<T>, statusOf: (result: T) => string = () => "ok"): Promise<T> {
    let result: T;
    try {
      result = await this.within(work);
    } catch (error) {
      this.error = error;
      this.#end(error instanceof ToolCallError ? error.type : "error");
      throw error;
    }
    this.#end(this.status ?? statusOf(result));
    return result;
  }

  /** Takes the decision, and throws, such as `refusal`, unless it allows the call. */
  obey(decision: GateDecision, refusal?: ToolCallError): void {
    this.decision = decision;
    this.waitMs = performance.now() - this.#start;
    for (const observer of this.#observers) observer.decided?.(this);
    if (decision.decision !== "allow") throw refusal ?? refusalOf(this.call, decision);
  }

  /** Must resolve before the call is sent. */
  async send(): Promise<void> {
    for (const observer of this.#observers) await observer.sending?.(this);
  }

  /** Must resolve before its caller, who does the rest, learns that it was approved. */
  async handOver(): Promise<void> {
    this.status = "approved"; // how it ends is not known here
    this.durationMs = performance.now() - this.#start;
    await this.send();
  }

  #end(status: string): void {
    this.status = status;
    this.durationMs = performance.now() - this.#start;
    for (const observer of this.#observers) observer.ended?.(this);
  }
}

/** Makes a span of each request to a server, which says what was decided and how it ended. */
export class CallSpans implements CallObserver {
  readonly #spans = new WeakMap<Readonly<ObservedCall>, Span>();

  begun(call: ObservedCall): void {
    const { id: callId, request } = call;
    if (request === undefined || !recordsSpans()) return;
    const span = call.within(() => startMcpSpan({ ...request, callId }));
    this.#spans.set(call, span);
    call.within = (work) => span.run(work);
  }

  decided(call: Readonly<ObservedCall>): void {
    const { decision, by } = call.decision ?? {};
    this.#spans.get(call)?.set({ "ipybox.approval.decision": decision, "ipybox.approval.by": by });
  }

  ended(call: Readonly<ObservedCall>): void {
    using span = this.#spans.get(call);
    if (span === undefined || call.status === "ok") return;
    const { error, status = "error" } = call;
    const code = error instanceof ToolCallError ? error.details.code : undefined;
    if (code !== undefined) span.set({ "rpc.response.status_code": `${code}` });
    span.fail(code?.toString() ?? (status === "error" ? "_OTHER" : status));
  }
}
