import { anySignal } from "../async/signals.ts";
import { TimeBudget } from "../async/time_budget.ts";
import { ExecutionTimeoutError, type KernelState } from "../errors.ts";
import type { ExecuteOptions, Execution } from "../kernel/execution.ts";
import type { Span } from "../telemetry/span.ts";
import type { ToolRunner } from "../tool_server/tool_runner.ts";
import { CodeInputs } from "./code_inputs.ts";
import { EventQueue } from "./event_queue.ts";
import type { ExecutionEvent } from "./events.ts";
import type { StreamOptions } from "./options.ts";

/** What a {@linkcode CodeRun} needs. */
export interface CodeRunParts {
  /** Runs code in the kernel. */
  readonly execute: (code: string, options: ExecuteOptions) => Execution;
  /** Makes the calls of the code. */
  readonly runner: ToolRunner;
  /** Told of the execution; its calls are a part of it. */
  readonly span: Span;
}

/** Code whose turn it is: its execution, with its time limit, and with what becomes of its calls. */
export class CodeRun {
  /** Aborts when the run is given up. */
  readonly signal: AbortSignal;
  readonly #cancel = new AbortController();
  #execution: Execution | undefined;
  #state: KernelState | undefined;

  /** @param stop What gives the run up, beside {@linkcode cancel}. */
  constructor(stop: AbortSignal) {
    this.signal = anySignal(stop, this.#cancel.signal);
  }

  /** Whether the execution has begun. */
  get begun(): boolean {
    return this.#execution !== undefined;
  }

  /** Whether the kernel's variables survived; known at the end of a run that has begun. */
  get state(): KernelState | undefined {
    return this.#state;
  }

  /** Gives the run up. */
  async cancel(): Promise<KernelState> {
    this.#cancel.abort(new DOMException("The execution was cancelled", "AbortError"));
    return await (this.#execution?.state ?? "kept"); // it may not have begun
  }

  /** Tells whether an error is nothing but {@linkcode cancel}. */
  isCancellation(error: unknown): boolean {
    return this.#cancel.signal.aborted && error === this.#cancel.signal.reason;
  }

  /** Executes the code and tells what happens. Leaving the loop cancels the execution. */
  async *events(
    code: string,
    options: StreamOptions,
    { execute, runner, span }: CodeRunParts,
  ): AsyncGenerator<ExecutionEvent, void, undefined> {
    const { timeoutMs, chunks = false, elicitations = false, calls = false, inputs = false } =
      options;
    const { channel, events: serverEvents, elicitations: questions } = runner;
    const events = new EventQueue();
    using budget = new TimeBudget(timeoutMs);
    const asked = new CodeInputs({
      flush: () => execution.flush(),
      tell: (request) => events.addInput({ type: "input", request }),
    });
    using _clock = budget.standStillFor([channel, questions, asked]);
    using _watcher = serverEvents.watch((event) => events.addServerEvent(event));
    using _follower = calls ? serverEvents.followCalls((event) => events.add(event)) : undefined;
    // Who decides sees first what the code has said before.
    using _approver = channel.attached ? undefined : channel.attach(async (request) => {
      await execution.flush();
      events.add({ type: "approval", request });
    });
    using _answerer = !elicitations || questions.attached
      ? undefined
      : questions.attach(async (request) => {
        await execution.flush();
        events.add({ type: "elicitation", request });
      });
    using _cell = span.run(() => runner.enterCell(code));
    const signal = anySignal(this.signal, budget.signal);
    const execution = execute(code, {
      signal,
      storeHistory: options.storeHistory,
      onInput: inputs ? (request) => asked.take(request) : undefined,
    });
    this.#execution = execution;
    const followed = events.follow(execution, { chunks });
    try {
      yield* events;
    } catch (error) {
      if (timeoutMs !== undefined && budget.expired && error === budget.signal.reason) {
        throw new ExecutionTimeoutError(timeoutMs, await execution.state, execution.partial());
      }
      throw error;
    } finally {
      this.#state = await execution.cancel(); // does nothing to one that has ended
      span.set({ "ipybox.kernel.state": this.#state });
      await followed;
    }
  }
}
