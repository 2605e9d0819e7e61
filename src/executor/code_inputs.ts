import { WaitCount } from "../base/deadline.ts";
import type { AuditTrail } from "../approval/audit/trail.ts";
import { sha256 } from "../json/digest.ts";
import type { InputRequest, Run } from "../kernel/execution.ts";
import type { ExecutionEvent } from "./options.ts";

/** Events while code runs, except for its output. */
export type RunEvent = Exclude<ExecutionEvent, { readonly type: "chunk" | "result" | "note" }>;

/**
 * The questions of one execution's code, each after the output that precedes it, one open at a
 * time.
 */
export class CodeInputs extends WaitCount {
  #latest: InputRequest | undefined;
  #isForwarding = false;
  readonly #code: string;
  #codeHash: string | undefined;
  readonly #audit: AuditTrail | undefined;

  constructor(code: string, audit: AuditTrail | undefined) {
    super();
    this.#code = code;
    this.#audit = audit;
  }

  /** Receives a question of the code. */
  take(request: InputRequest, execution: Run<RunEvent>): void {
    this.count(1);
    const { prompt, isPassword } = request;
    const time = new Date();
    request.closed.then((end) => {
      this.count(-1);
      this.#audit?.asked({
        ...end,
        kind: "input",
        serverName: "ipybox",
        toolName: isPassword ? "getpass" : "input",
        arguments: { prompt },
        codeHash: this.#codeHash ??= sha256(this.#code), // lazily, as code can ask very often
        time,
      });
    });
    this.#latest = request;
    if (!this.#isForwarding) this.#forwardLatest(execution);
  }

  async #forwardLatest(execution: Run<RunEvent>): Promise<void> {
    this.#isForwarding = true;
    while (this.#latest !== undefined) {
      const request = this.#latest;
      await execution.flush();
      if (request !== this.#latest) continue;
      this.#latest = undefined;
      if (request.signal.aborted) continue;
      const size = request.prompt.length;
      if (execution.events.hasRoom(size)) execution.events.add({ type: "input", request }, size);
      else request.end(); // nobody would see it in time
    }
    this.#isForwarding = false;
  }
}
