import type { ApprovalRequest } from "../approval/request.ts";
import { anySignal, settledWithin } from "../async/signals.ts";
import { CodeExecutionError, ExecutionTimeoutError, KernelDiedError } from "../errors.ts";
import type { CodeExecutor } from "../executor/code_executor.ts";
import type { ExecutionResult } from "../kernel/outputs.ts";
import { type CommandIo, EXIT } from "./command.ts";
import { OutputPrinter } from "./output_printer.ts";

/** How {@linkcode runAction} runs a code action. */
export interface RunActionOptions {
  /** Where output goes. */
  readonly io: CommandIo;
  /** Whether the outcome is printed as one JSON object, instead of the output as it comes. */
  readonly json?: boolean;
  readonly timeoutMs?: number | undefined;
  /** Decides on each tool call. */
  readonly decide: (request: ApprovalRequest) => Promise<void>;
  /**
   * Whether a person at the terminal decides, who first sees what the code printed before the call.
   *
   * @default {whether there is a terminal}
   */
  readonly asksAPerson?: boolean;
}

/** What `--json` prints. */
interface Outcome extends ExecutionResult {
  readonly status: "ok" | "error" | "timeout" | "died";
  readonly error?: {
    readonly ename: string;
    readonly evalue: string;
    readonly traceback?: string;
  };
}

/**
 * Runs a code action on the command line.
 *
 * @param executor Runs it.
 * @param code The code.
 * @param options Where output goes and who approves.
 * @returns The exit code.
 */
export async function runAction(
  executor: CodeExecutor,
  code: string,
  options: RunActionOptions,
): Promise<number> {
  const { io, json = false } = options;
  try {
    const result = await follow(executor, code, options);
    if (json) printOutcome(io, { status: "ok", ...result });
    else for (const image of result.images) io.err(`Image: ${image}`);
    return EXIT.ok;
  } catch (error) {
    const outcome = json ? outcomeOf(error) : undefined;
    if (outcome === undefined) throw error;
    printOutcome(io, outcome);
    return EXIT.failed;
  }
}

async function follow(
  executor: CodeExecutor,
  code: string,
  options: RunActionOptions,
): Promise<ExecutionResult> {
  const { io, json = false, timeoutMs, decide, asksAPerson = io.interactive } = options;
  const output = new OutputPrinter(io);
  let result: ExecutionResult = { text: null, images: [], outputs: [] };
  try {
    const stream = executor.stream(code, { timeoutMs, signal: io.signal, chunks: !json });
    for await (const event of stream) {
      switch (event.type) {
        case "chunk":
          await output.print(event);
          break;
        case "approval":
          if (!asksAPerson) output.endLine();
          // Not awaited: other output, and other requests, may come meanwhile.
          ask(event.request).catch((error: unknown) => io.err(`ipybox: ${error}`));
          break;
        case "result":
          result = event.result;
      }
    }
    return result;
  } finally {
    output.release();
    output.endLine();
  }

  async function ask(request: ApprovalRequest): Promise<void> {
    if (!asksAPerson) return await decide(request);
    await settledWithin(untilAborted(anySignal(request.signal, io.signal)), IN_FLIGHT_MS);
    using _hold = output.hold();
    await decide(request);
  }
}

/** How long output that was printed before a call may take to arrive: the kernel sends in bursts. */
const IN_FLIGHT_MS = 250;

function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

function outcomeOf(error: unknown): Outcome | undefined {
  const none = { text: null, images: [], outputs: [] };
  if (error instanceof CodeExecutionError) {
    const { text, images, outputs, ename, evalue, traceback } = error;
    return { status: "error", text, images, outputs, error: { ename, evalue, traceback } };
  }
  if (error instanceof ExecutionTimeoutError) {
    const { text, images, outputs, name, message } = error;
    return { status: "timeout", text, images, outputs, error: { ename: name, evalue: message } };
  }
  if (error instanceof KernelDiedError) {
    return { status: "died", ...none, error: { ename: error.name, evalue: error.message } };
  }
  return undefined;
}

function printOutcome(io: CommandIo, outcome: Outcome): void {
  io.out(JSON.stringify(outcome, null, 2) + "\n");
}
