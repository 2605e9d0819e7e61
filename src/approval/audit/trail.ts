import type { GateDecision } from "../gate.ts";
import type { ApprovalCall } from "../request.ts";
import { ToolCallError } from "../../base/errors.ts";
import type { AuditEntry } from "./entry.ts";
import type { AuditLog } from "./log.ts";
import { sha256 } from "../../json/digest.ts";

/** What a request would go to. */
export type AuditTarget = Pick<AuditEntry, "serverHash" | "toolHash">;

/** Takes what becomes of a request while it is run. */
export interface RequestNotes {
  /** Takes what was decided. */
  readonly onDecision: (decision: GateDecision) => void;
  /** Takes what the request would go to. */
  readonly onTarget: (target: AuditTarget) => void;
  /** Notes the request before it is sent, and waits until that is written. */
  readonly beforeSending: () => Promise<void>;
}

/** Notes requests in an audit log, where there is one. */
export class AuditTrail {
  readonly #log: AuditLog | undefined;
  #codeHash: string | undefined;

  /** @param log The log; without it nothing is noted. */
  constructor(log?: AuditLog) {
    this.#log = log;
  }

  /** Tells which code makes the requests from now on. */
  setCode(code: string | undefined): void {
    if (this.#log !== undefined) this.#codeHash = code === undefined ? undefined : sha256(code);
  }

  /** Runs a request and notes how it ended. */
  async record<T>(
    call: ApprovalCall,
    run: (notes: RequestNotes) => Promise<T>,
    statusOf: (result: T) => string = () => "ok",
  ): Promise<T> {
    const log = this.#log;
    if (log === undefined) return await run(NO_NOTES);
    const [time, start] = [new Date(), performance.now()];
    const entry: AuditEntry = {
      id: call.callId ?? crypto.randomUUID(),
      time,
      codeHash: this.#codeHash,
      kind: call.kind,
      server: call.serverName,
      tool: call.toolName,
      arguments: call.arguments,
    };
    let target: AuditTarget | undefined;
    let decision: (GateDecision & { readonly waitMs: number }) | undefined;
    let begun = false;
    const known = (): AuditEntry => ({ ...entry, ...target, ...decision });
    const end = async (status: string): Promise<boolean> => {
      const durationMs = performance.now() - start;
      if (!begun) return await log.append({ ...known(), status, durationMs });
      log.appendOutcome({ id: entry.id, time: new Date(), status, durationMs });
      return true;
    };
    let result: T;
    try {
      result = await run({
        onTarget: (found) => target = found,
        onDecision: (made) => decision = { ...made, waitMs: performance.now() - start },
        beforeSending: async () => {
          if (!await log.append(known())) throw notNoted();
          begun = true;
        },
      });
    } catch (error) {
      void end(error instanceof ToolCallError ? error.type : "error");
      throw error;
    }
    const written = end(statusOf(result));
    // What was allowed here is done elsewhere, such as a shell command.
    if (!begun && decision?.decision === "allow" && !await written) throw notNoted();
    return result;
  }
}

const NO_NOTES: RequestNotes = {
  onTarget: () => {},
  onDecision: () => {},
  beforeSending: () => Promise.resolve(),
};

function notNoted(): ToolCallError {
  return new ToolCallError(
    "tool_server_error",
    "The call was not made: the audit log cannot be written (ipybox's log says why)",
  );
}
