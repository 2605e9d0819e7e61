import { ToolCallError } from "../base/errors.ts";
import type { McpRequest, Within } from "../base/telemetry.ts";
import { type GateDecision, refusalOf } from "./gate.ts";
import type { ApprovalCall } from "./request.ts";

/** Follows calls. Each step is reported before the next one begins. */
export interface CallObserver {
  /** A call has begun. */
  begun?(call: ObservedCall): void;
  /** It was decided on. */
  decided?(call: ObservedCall): void;
  /** It is about to be sent, or left to its caller. A rejection ends it instead. */
  sending?(call: ObservedCall): void | Promise<void>;
  /** It has ended, in whatever way. */
  ended?(call: ObservedCall): void;
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

  readonly #observers: readonly CallObserver[];
  readonly #start = performance.now();
  #decision: GateDecision | undefined;
  #waitMs: number | undefined;
  #status: string | undefined;
  #durationMs: number | undefined;
  #error: unknown;

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

  /** What was decided, if anything was. */
  get decision(): GateDecision | undefined {
    return this.#decision;
  }

  /** How long the decision took, in milliseconds. */
  get waitMs(): number | undefined {
    return this.#waitMs;
  }

  /** How it ended: `"ok"`, `"approved"` if its caller does the rest, or the type of the error. */
  get status(): string | undefined {
    return this.#status;
  }

  /** How long it took in all, in milliseconds, once it has ended. */
  get durationMs(): number | undefined {
    return this.#durationMs;
  }

  /** What it failed with. */
  get error(): unknown {
    return this.#error;
  }

  /** Does the work of the call, and ends it. */
  async run<T>(work: () => Promise<T>, statusOf: (result: T) => string = () => "ok"): Promise<T> {
    let result: T;
    try {
      result = await this.within(work);
    } catch (error) {
      this.#error = error;
      this.#end(error instanceof ToolCallError ? error.type : "error");
      throw error;
    }
    this.#end(this.#status ?? statusOf(result));
    return result;
  }

  /** Takes the decision, and throws, such as `refusal`, unless it allows the call. */
  obey(decision: GateDecision, refusal?: ToolCallError): void {
    this.#decision = decision;
    this.#waitMs = performance.now() - this.#start;
    for (const observer of this.#observers) observer.decided?.(this);
    if (decision.decision !== "allow") throw refusal ?? refusalOf(this.call, decision);
  }

  /** Must resolve before the call is sent. */
  async send(): Promise<void> {
    for (const observer of this.#observers) await observer.sending?.(this);
  }

  /** Must resolve before its caller, who does the rest, learns that it was approved. */
  async handOver(): Promise<void> {
    this.#status = "approved"; // how it ends is not known here
    this.#durationMs = performance.now() - this.#start;
    await this.send();
  }

  #end(status: string): void {
    this.#status = status;
    this.#durationMs = performance.now() - this.#start;
    for (const observer of this.#observers) observer.ended?.(this);
  }
}
