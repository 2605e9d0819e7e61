import type { GateDecision } from "../approval/gate.ts";
import type { ApprovalCall } from "../approval/request.ts";
import { ToolCallError } from "../errors.ts";
import type { AuditLog } from "./audit_log.ts";
import { sha256 } from "../json/digest.ts";

/** Takes what was decided. */
export type DecisionListener = (decision: GateDecision) => void;

/** Notes requests in an audit log, where there is one. */
export class AuditTrail {
  readonly #log: AuditLog | undefined;
  #codeHash: string | undefined;

  /** @param log The log; without it nothing is noted. */
  constructor(log?: AuditLog) {
    this.#log = log;
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
    if (this.#log === undefined) return await run(() => {});
    const [time, start, codeHash] = [new Date(), performance.now(), this.#codeHash];
    let decision: (GateDecision & { readonly waitMs: number }) | undefined;
    const note = (status: string): void => {
      this.#log?.append({
        id: call.callId ?? crypto.randomUUID(),
        time,
        codeHash,
        kind: call.kind,
        server: call.serverName,
        tool: call.toolName,
        ...decision,
        arguments: call.arguments,
        status,
        durationMs: performance.now() - start,
      });
    };
    try {
      const result = await run((made) => {
        decision = { ...made, waitMs: performance.now() - start };
      });
      note(statusOf(result));
      return result;
    } catch (error) {
      note(error instanceof ToolCallError ? error.type : "error");
      throw error;
    }
  }
}
