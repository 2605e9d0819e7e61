/**
 * What the tests of shell commands share: an executor without sandbox whose approvals the test
 * decides, and what came of a cell.
 *
 * @module
 */
import type { ApprovalRequest } from "../../src/approval/request.ts";
import { CodeExecutionError } from "../../src/base/errors.ts";
import type { CodeExecutor } from "../../src/executor/code_executor.ts";
import type { CodeExecutorOptions, StreamOptions } from "../../src/executor/options.ts";
import { TestExecutor } from "./executor.ts";

/** What a cell came to. */
export interface CellOutcome {
  /** What was asked, such as `shell {"cmd":"ls"}`. */
  readonly asked: string[];
  /** The text of the result, or of what there was before an error. */
  readonly text: string | null;
  /** The error that the cell raised. */
  readonly error?: CodeExecutionError;
}

/** Decides on what a cell asks. */
export type Decide = (request: ApprovalRequest) => unknown;

/** An executor in a workspace of its own. Disposing ends the one and removes the other. */
export class ShellExecutor implements AsyncDisposable {
  readonly #test: TestExecutor;

  private constructor(test: TestExecutor) {
    this.#test = test;
  }

  /** Starts an executor that asks about shell commands, unless the options say otherwise. */
  static async start(options: CodeExecutorOptions = {}): Promise<ShellExecutor> {
    const defaults: CodeExecutorOptions = { sandbox: false, approval: { shell: "ask" } };
    return new ShellExecutor(await TestExecutor.start({ ...defaults, ...options }));
  }

  get executor(): CodeExecutor {
    return this.#test.executor;
  }

  /** Runs a cell and says what it asked and what came of it. */
  async run(
    code: string,
    decide: Decide = (request) => request.accept(),
    options: StreamOptions = {},
  ): Promise<CellOutcome> {
    const asked: string[] = [];
    try {
      for await (const event of this.executor.stream(code, options)) {
        if (event.type === "result") return { asked, text: event.result.text };
        if (event.type !== "approval") continue;
        asked.push(`${event.request.kind} ${event.request.argumentsJson}`);
        decide(event.request);
      }
      return { asked, text: null };
    } catch (error) {
      if (error instanceof CodeExecutionError) return { asked, text: error.text, error };
      throw error;
    }
  }

  /** Whether the workspace holds a file that no cell was allowed to make. */
  async marked(): Promise<boolean> {
    const files = await Array.fromAsync(Deno.readDir(this.#test.workspace));
    return files.some(({ name }) => name === "marker");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#test[Symbol.asyncDispose]();
  }
}
