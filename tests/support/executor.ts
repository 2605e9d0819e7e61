/**
 * What tests of the whole path share: an executor in a workspace of its own, and its events.
 *
 * @module
 */
import type { ApprovalRequest } from "../../src/approval/request.ts";
import { type CodeExecutor, startOwn } from "../../src/executor/code_executor.ts";
import type { OwnExecutorOptions, StreamOptions } from "../../src/executor/options.ts";
import type { ExecutionResult } from "../../src/kernel/outputs.ts";
import { silentLogger } from "../../src/base/log.ts";
import { testPython } from "./python.ts";
import { TempFolder } from "./temp_folder.ts";

/** An executor in a workspace of its own. Disposing ends the one and removes the other. */
export class TestExecutor implements AsyncDisposable {
  readonly #parts: AsyncDisposableStack;

  private constructor(
    parts: AsyncDisposableStack,
    readonly executor: CodeExecutor,
    readonly workspace: string,
  ) {
    this.#parts = parts;
  }

  /**
   * Starts an executor on the tests' Python.
   *
   * @param options Its options; the workspace is made where it is not named, and there is no spare
   *   kernel unless it is asked for, as few tests live long enough to use it.
   * @returns The executor and its workspace.
   */
  static async start(options: OwnExecutorOptions = {}): Promise<TestExecutor> {
    await using parts = new AsyncDisposableStack();
    const workspace = options.workspace ?? parts.use(await TempFolder.create()).path;
    const defaults = { python: testPython(), log: silentLogger, workspace, spareKernel: false };
    const executor = parts.use(await startOwn({ ...defaults, ...options }));
    return new TestExecutor(parts.move(), executor, workspace);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#parts.disposeAsync();
  }
}

/** What an execution came to. */
export interface Followed {
  /** What happened, such as `chunk stdout "a\n"`, `approval raw.echo()` and `result "a"`. */
  readonly events: string[];
  /** The result; `undefined` for an execution that was cancelled. */
  readonly result: ExecutionResult | undefined;
}

/**
 * Follows an execution to its end.
 *
 * @param executor Runs the code.
 * @param code The code.
 * @param decide Told of each approval while the events go on.
 * @param options The execution's limits.
 * @returns What happened.
 */
export async function follow(
  executor: CodeExecutor,
  code: string,
  decide: (request: ApprovalRequest) => unknown,
  options: StreamOptions = {},
): Promise<Followed> {
  const events: string[] = [];
  let result: ExecutionResult | undefined;
  for await (const event of executor.stream(code, options)) {
    switch (event.type) {
      case "chunk":
        events.push(`chunk ${event.stream} ${JSON.stringify(event.text)}`);
        break;
      case "approval":
        events.push(`approval ${event.request}`);
        decide(event.request);
        break;
      case "result":
        events.push(`result ${JSON.stringify(event.result.text)}`);
        result = event.result;
    }
  }
  return { events, result };
}
