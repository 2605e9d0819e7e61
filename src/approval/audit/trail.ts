import { ToolCallError } from "../../base/errors.ts";
import type { CallObserver, ObservedCall } from "../observed_call.ts";
import type { EndedQuestion } from "../questions.ts";
import type { AuditEntry } from "./entry.ts";
import type { AuditLog } from "./log.ts";

/** Records calls in an audit log: before they are sent, or when they end without being sent. */
export class AuditTrail implements CallObserver {
  readonly #log: AuditLog;
  /** The recorded entries of calls that have not ended. */
  readonly #noted = new WeakMap<Readonly<ObservedCall>, AuditEntry>();

  constructor(log: AuditLog) {
    this.#log = log;
  }

  /** Records the call, and waits until it is written. A call that cannot be recorded is not made. */
  async sending(call: Readonly<ObservedCall>): Promise<void> {
    const entry = entryOf(call);
    if (!await this.#log.append(entry)) {
      throw new ToolCallError(
        "tool_server_error",
        "The call was not made because the audit log cannot be written (see ipybox's log)",
      );
    }
    this.#noted.set(call, entry);
  }

  /** Records the end of the call. Nobody waits for this. */
  ended(call: Readonly<ObservedCall>): void {
    const noted = this.#noted.get(call);
    if (noted === undefined) return void this.#log.append(entryOf(call));
    if (noted.status !== undefined) return; // its caller does the rest
    const { id, status = "error", durationMs = 0 } = call;
    this.#log.appendOutcome({ id, time: new Date(), status, durationMs });
  }

  /** Records a question of a server or of code. Nobody waits for this. */
  asked(question: EndedQuestion): void {
    const { serverName: server, toolName: tool, action: status, time } = question;
    this.#log.append({
      ...question,
      id: crypto.randomUUID(),
      server,
      tool,
      decision: status === "accept" ? "allow" : "deny",
      status,
      durationMs: Date.now() - time.getTime(),
    });
  }
}

function entryOf(observed: Readonly<ObservedCall>): AuditEntry {
  const { id, time, call, cell, target, decision, waitMs, status, durationMs } = observed;
  return {
    id,
    time,
    codeHash: cell?.codeHash,
    kind: call.kind,
    server: call.serverName,
    tool: call.toolName,
    arguments: call.arguments,
    ...target,
    ...decision,
    waitMs,
    status,
    durationMs,
  };
}
