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
import { type GateDecision, refusalOf } from "./gate.ts";
import type { ApprovalCall, CallSource } from "./request.ts";

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

/** What is known of a call when it begins. */
export interface CallBeginning {
  /** The execution that it comes from. */
  readonly cell?: Cell;
  /** The request to a server that it is. */
  readonly request?: McpRequest;
  /** What follows only this call, before all others, and gives it its id. */
  readonly entry?: CallObserver & { readonly id: string };
}

/** A call under way: all that is known of it so far. Its observers learn of each step. */
export class ObservedCall {
  /** Identifies the call. */
  readonly id: string;
  /** The call, without what its log must not contain. */
  readonly call: ApprovalCall;
  /** The execution that it comes from. */
  readonly cell: Cell | undefined;
  /** The request to a server that it is. */
  readonly request: McpRequest | undefined;
  /** When it began. */
  readonly time: Date = new Date();
  /** What it would reach, once that is known. */
  target: CallTarget | undefined;
  /** The tool as its server describes it, once that is known. */
  tool: Tool | undefined;
  /** What the tool returned. */
  result: ToolResult | undefined;
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

/** More of a line than helps to find it. */
const MAX_LINE = 500;
/** More code than a person would read. Each request that waits, and each that is kept, has it. */
const MAX_CODE = 20_000;
/** Of more lines than people write, only the first ones are found. */
const MAX_LINES = 100_000;

/** An execution whose code makes calls. Threads that it leaves continue calling after it has ended. */
export class Cell implements Disposable {
  /** Does something as a part of the execution's span, which is the one that is running now. */
  readonly within: Within = captureTrace();
  readonly #names: readonly string[] | undefined;
  #code: string | undefined;
  #codeHash: string | undefined;
  /** Where the lines of the code start, found once: each request names a line. */
  #lineStarts: readonly number[] | undefined;

  /**
   * @param code What is executed.
   * @param names The tools that it names, if that is known.
   */
  constructor(code: string, names: readonly string[] = []) {
    this.#code = code;
    this.#names = names.length === 0 ? undefined : names;
  }

  /** The SHA-256 of the code. */
  get codeHash(): string {
    return this.#codeHash ??= sha256(this.#code ?? "");
  }

  /** Gives a line of the code while it runs. */
  sourceAt(line: number): CallSource | undefined {
    if (this.#code === undefined) return undefined;
    this.#lineStarts ??= lineStarts(this.#code);
    const [start, next] = [this.#lineStarts[line - 1], this.#lineStarts[line]];
    if (start === undefined || next === undefined) return undefined;
    const text = beginning(this.#code.slice(start, next - 1), MAX_LINE);
    const names = this.#names === undefined ? {} : { names: this.#names };
    return { line, text, ...names, code: beginning(this.#code, MAX_CODE) };
  }

  /** The execution has ended: no line of it calls any more. */
  [Symbol.dispose](): void {
    void this.codeHash; // what it has left running is still its code
    this.#code = undefined;
    this.#lineStarts = undefined;
  }
}

function beginning(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most)}… (${text.length} characters)` : text;
}

/** Where each line starts, and where one would start after the last. */
function lineStarts(code: string): number[] {
  const starts = [0];
  while (starts.length <= MAX_LINES) {
    const end = code.indexOf("\n", starts.at(-1));
    if (end < 0) {
      starts.push(code.length + 1);
      break;
    }
    starts.push(end + 1);
  }
  return starts;
}
