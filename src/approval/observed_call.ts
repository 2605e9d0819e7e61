import { ToolCallError } from "../base/errors.ts";
import {
  captureTrace,
  type McpRequest,
  recordsSpans,
  type Span,
  startMcpSpan,
  type Within,
} from "../base/telemetry.ts";
import { sha256 } from "../json/digest.ts";
import type { ToolResult } from "../mcp/results.ts";
import type { Tool } from "../mcp/tools.ts";
import { shortened } from "./call_text.ts";
import { type GateDecision, refusalOf } from "./gate.ts";
import type { ApprovalCall, CallSource } from "./request.ts";

/** Follows calls. Each step is reported before the next one begins. */
export interface CallObserver {
  /** A call has begun. */
  begun?(call: ObservedCall): void;
  /** It was decided on. */
  decided?(call: Readonly<ObservedCall>): void;
  /** It is about to be sent, or handed over to its caller. A rejection ends it instead. */
  sending?(call: Readonly<ObservedCall>): void | Promise<void>;
  /** It has ended, successfully or not. */
  ended?(call: Readonly<ObservedCall>): void;
}

/** Identifies a call's target: equal hashes mean the same server and the same tool. */
export interface CallTarget {
  /** The SHA-256 of how the server is started or reached, as shown to approvers. */
  readonly serverHash: string;
  /** The SHA-256 of the tool's definition, with the names in its objects sorted. */
  readonly toolHash?: string;
}

/** The facts about a call when it begins. */
interface CallBeginning {
  /** The execution that it comes from. */
  readonly cell?: Cell;
  /** The request to a server, if it is one. */
  readonly request?: McpRequest;
  /** An observer for this call only, called before all others, which provides its id. */
  readonly entry?: CallObserver & { readonly id: string };
}

/** A call in progress and everything known about it so far. Its observers are informed of each step. */
export class ObservedCall {
  /** The call's id. */
  readonly id: string;
  /** The call, without anything that the log must not contain. */
  readonly call: ApprovalCall;
  /** The execution that it comes from. */
  readonly cell: Cell | undefined;
  /** The request to a server, if it is one. */
  readonly request: McpRequest | undefined;
  /** When it began. */
  readonly time: Date = new Date();
  /** Its target, once known. */
  target: CallTarget | undefined;
  /** The tool as its server describes it, once known. */
  tool: Tool | undefined;
  /** The tool's result. */
  result: ToolResult | undefined;
  /** Runs a function within the trace. An observer that starts a span replaces it. */
  within: Within;
  /** The decision, once made. */
  decision: GateDecision | undefined;
  /** How long the decision took, in milliseconds. */
  waitMs: number | undefined;
  /** How it ended: `"ok"`, `"approved"` if its caller does the rest, or the type of the error. */
  status: string | undefined;
  /** How long it took in total, in milliseconds, once it has ended. */
  durationMs: number | undefined;
  /** The error that it failed with. */
  error: unknown;

  readonly #observers: readonly CallObserver[];
  readonly #start = performance.now();

  constructor(
    call: ApprovalCall,
    observers: readonly CallObserver[],
    { cell, request, entry }: CallBeginning = {},
  ) {
    this.id = call.callId ?? entry?.id ?? crypto.randomUUID();
    this.call = call;
    this.cell = cell;
    this.request = request;
    this.within = cell?.within ?? ((work) => work());
    this.#observers = entry === undefined ? observers : [entry, ...observers];
    for (const observer of this.#observers) observer.begun?.(this);
  }

  /** Executes the call, and ends it. */
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

  /** Applies the decision: throws `refusal`, or else its own error, unless the call is allowed. */
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

  /** Must resolve before the caller, who does the rest, learns of the approval. */
  async handOver(): Promise<void> {
    this.status = "approved"; // its outcome is unknown here
    this.durationMs = performance.now() - this.#start;
    await this.send();
  }

  #end(status: string): void {
    this.status = status;
    this.durationMs = performance.now() - this.#start;
    for (const observer of this.#observers) observer.ended?.(this);
  }
}

/** Creates a span for each request to a server, with its decision and outcome. */
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

/** The most characters of a line: more than are needed to find it. */
const MAX_LINE = 500;
/**
 * The most characters of code, since every waiting or recorded request contains it: more than a
 * person reads.
 */
const MAX_CODE = 20_000;
/** Only the first lines can be found; nobody writes more. */
const MAX_LINES = 100_000;

/**
 * An execution whose code makes calls. Threads that it leaves behind may call after it has ended.
 */
export class Cell implements Disposable {
  /** Runs a function within the execution's span, which is the current one. */
  readonly within: Within = captureTrace();
  readonly #names: readonly string[] | undefined;
  #code: string | undefined;
  #codeHash: string | undefined;
  /** Split once, because each request refers to a line. */
  #lines: readonly string[] | undefined;

  /** `names` are the tools that the code names, if known. */
  constructor(code: string, names: readonly string[] = []) {
    this.#code = code;
    this.#names = names.length === 0 ? undefined : names;
  }

  /** The SHA-256 of the code. */
  get codeHash(): string {
    return this.#codeHash ??= sha256(this.#code ?? "");
  }

  /** A line of the code, while it runs. */
  sourceAt(line: number): CallSource | undefined {
    if (this.#code === undefined) return undefined;
    this.#lines ??= this.#code.split("\n", MAX_LINES);
    const text = this.#lines[line - 1];
    if (text === undefined) return undefined;
    const names = this.#names === undefined ? {} : { names: this.#names };
    return {
      line,
      text: shortened(text, MAX_LINE),
      ...names,
      code: shortened(this.#code, MAX_CODE),
    };
  }

  /** Ends the execution: none of its lines makes calls any more. */
  [Symbol.dispose](): void {
    void this.codeHash; // tasks that it left running are still its code
    this.#code = undefined;
    this.#lines = undefined;
  }
}
