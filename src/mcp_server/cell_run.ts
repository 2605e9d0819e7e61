import type { ApprovalRequest } from "../approval/request.ts";
import type { CodeExecutor } from "../executor/code_executor.ts";
import type { ExecutionResult } from "../kernel/outputs.ts";

/** What a cell comes to next: calls that wait for approval, or its end. */
export type CellStep =
  | { readonly type: "approvals"; readonly requests: readonly ApprovalRequest[] }
  | { readonly type: "ended"; readonly outcome: CellOutcome };

/** How a cell ended. */
export type CellOutcome =
  | { readonly result: ExecutionResult }
  | { readonly error: unknown };

/**
 * A cell under way, which goes on while its approvals travel to the client's user and back.
 *
 * In the protocol's newer era each round of approvals is a request of its own, so a cell outlives
 * the request that started it.
 */
export class CellRun {
  /** Identifies it between requests; random. */
  readonly id: string = crypto.randomUUID();
  readonly #cancel = new AbortController();
  readonly #granted = new Set<string>();
  #requests: ApprovalRequest[] = [];
  #outcome: CellOutcome | undefined;
  #news = Promise.withResolvers<void>();

  /**
   * Starts the cell.
   *
   * @param executor Runs it, after the cells before it.
   * @param code Its code.
   * @param timeoutMs How long it may run, approvals excluded.
   */
  constructor(executor: CodeExecutor, code: string, timeoutMs: number) {
    this.#run(executor, code, timeoutMs).then((outcome) => {
      this.#outcome = outcome;
      this.#news.resolve();
    });
  }

  /**
   * Waits until calls need approval or the cell has ended.
   *
   * @param signal Cancels the cell.
   * @returns What came first.
   */
  async next(signal: AbortSignal): Promise<CellStep> {
    const cancel = () => this.cancel(signal.reason);
    if (signal.aborted) cancel();
    signal.addEventListener("abort", cancel, { once: true });
    try {
      for (;;) {
        this.#requests = this.#requests.filter((request) => !request.signal.aborted);
        if (this.#outcome !== undefined) return { type: "ended", outcome: this.#outcome };
        if (this.#requests.length > 0) return { type: "approvals", requests: [...this.#requests] };
        await this.#news.promise;
        this.#news = Promise.withResolvers();
      }
    } finally {
      signal.removeEventListener("abort", cancel);
    }
  }

  /**
   * Decides a waiting call.
   *
   * @param id The request's id. One that no longer waits is passed over.
   * @param decision Whether to allow it, only it or all calls of this tool until the cell ends.
   * @param reason Why it is denied, in words for the code that called.
   */
  async decide(
    id: string,
    decision: "once" | "cell" | "deny",
    reason = "the user said no",
  ): Promise<void> {
    const request = this.#requests.find((waiting) => waiting.id === id);
    if (request === undefined) return;
    this.#requests = this.#requests.filter((waiting) => waiting !== request);
    if (decision === "deny") await request.reject(reason);
    else {
      if (decision === "cell") this.#granted.add(toolOf(request));
      await request.accept();
    }
  }

  /** Ends the cell. */
  cancel(reason: unknown): void {
    this.#cancel.abort(reason);
  }

  async #run(executor: CodeExecutor, code: string, timeoutMs: number): Promise<CellOutcome> {
    try {
      const stream = executor.stream(code, { timeoutMs, signal: this.#cancel.signal });
      for await (const event of stream) {
        if (event.type === "result") return { result: event.result };
        if (event.type === "approval") await this.#take(event.request);
      }
      throw new DOMException("The execution was cancelled", "AbortError");
    } catch (error) {
      return { error };
    }
  }

  async #take(request: ApprovalRequest): Promise<void> {
    if (this.#granted.has(toolOf(request))) {
      await request.accept();
      return;
    }
    this.#requests.push(request);
    this.#news.resolve();
  }
}

function toolOf(request: ApprovalRequest): string {
  return JSON.stringify([request.kind, request.serverName, request.toolName]);
}
