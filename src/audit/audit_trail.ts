import type { GateDecision } from "../approval/gate.ts";
import type { ApprovalCall } from "../approval/request.ts";
import { ToolCallError } from "../errors.ts";
import type { AuditLog } from "./audit_log.ts";
import { sha256 } from "./chain.ts";

/** Takes what was decided. */
export type DecisionListener = (decision: GateDecision) => void;

/** What became of a request. */
export interface RequestEnd {
  /** What was decided; absent where it failed before. */
  readonly decision?: GateDecision | undefined;
  /** How it ended: `"ok"`, or the type of the error. */
  readonly status: string;
  /** How long it took in all, in milliseconds. */
  readonly durationMs: number;
  /** How long the decision took, in milliseconds. */
  readonly waitMs?: number | undefined;
}

/** Told of each request as it begins. What it returns is told how the request ended. */
export type RequestObserver = (call: ApprovalCall, id: string) => (end: RequestEnd) => void;

/** Notes requests in an audit log, where there is one, and tells whoever follows them. */
export class AuditTrail {
  readonly #log: AuditLog | undefined;
  readonly #observe: RequestObserver | undefined;
  #codeHash: string | undefined;

  /**
   * @param log The log; without it nothing is noted.
   * @param observe Told of each request.
   */
  constructor(log?: AuditLog, observe?: RequestObserver) {
    this.#log = log;
    this.#observe = observe;
  }

  /**
   * Tells which code makes the requests from now on.
   *
   * @param code The code, or `undefined` where that is not known any more.
   */
  setCode(code: string | undefined): void {
    if (this.#log !== undefined) this.#codeHash = code === undefined ? undefined : sha256(code);
  }

  /**
   * Runs a request and notes how it ended.
   *
   * @param call The request.
   * @param run Runs it. It tells what was decided.
   * @param statusOf The status of a result.
   * @returns What it returns.
   * @throws {unknown} What it throws.
   */
  async record<T>(
    call: ApprovalCall,
    run: (onDecision: DecisionListener) => Promise<T>,
    statusOf: (result: T) => string = () => "ok",
  ): Promise<T> {
    if (this.#log === undefined && this.#observe === undefined) return await run(() => {});
    const [time, start, codeHash] = [new Date(), performance.now(), this.#codeHash];
    const id = call.callId ?? crypto.randomUUID();
    const tell = this.#observe?.(call, id);
    let decision: GateDecision | undefined;
    let waitMs: number | undefined;
    const note = (status: string): void => {
      const durationMs = performance.now() - start;
      tell?.({ decision, waitMs, status, durationMs });
      this.#log?.append({
        id,
        time,
        codeHash,
        kind: call.kind,
        server: call.serverName,
        tool: call.toolName,
        ...decision,
        waitMs,
        arguments: call.arguments,
        status,
        durationMs,
      });
    };
    try {
      const result = await run((made) => {
        decision = made;
        waitMs = performance.now() - start;
      });
      note(statusOf(result));
      return result;
    } catch (error) {
      note(error instanceof ToolCallError ? error.type : "error");
      throw error;
    }
  }
}
