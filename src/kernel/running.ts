import { abortable, settledWithin } from "../async/signals.ts";
import { KernelDiedError, type KernelState } from "../errors.ts";
import type { Logger } from "../log.ts";
import { codeError } from "./code_error.ts";
import type { Outcome } from "./execution.ts";
import type { HintContext } from "./failure_hint.ts";
import { inputQuestion, InputRequest } from "./input_request.ts";
import type { JsonObject } from "./jupyter.ts";
import type { Kernel } from "./kernel.ts";
import type { KernelKeeper } from "./kernel_keeper.ts";
import type { KernelRequest } from "./kernel_request.ts";
import type { OutputCollector } from "./output_collector.ts";

/** What {@linkcode Running} code needs. */
export interface RunningOptions {
  /** Takes its output. */
  readonly collector: OutputCollector;
  /** Has the kernel, and replaces it where the code does not end. */
  readonly keeper: KernelKeeper;
  /** How long the code may take to end once it is interrupted. */
  readonly graceMs: number;
  /** What may have been the reason of an error. */
  readonly context: HintContext;
  /** Answers what the code asks; without it, asking raises. */
  readonly onInput: ((request: InputRequest) => void) | undefined;
  /** Told of a kernel that is given up. */
  readonly log: Logger;
}

/** How long a kernel whose interrupted code has ended may take to be ready for other code. */
const IDLE_GRACE_MS = 10_000;

/** Code that a kernel runs: how it is interrupted, and how it ends. */
export class Running {
  /** What takes its output. */
  readonly collector: OutputCollector;
  readonly #kernel: Kernel;
  readonly #options: RunningOptions;
  readonly #request: KernelRequest;
  readonly #interrupts: Promise<void>[] = [];
  /** What the code asked last. */
  #question: InputRequest | undefined;

  /** Sends the code to a kernel. */
  constructor(
    kernel: Kernel,
    code: { readonly code: string; readonly storeHistory: boolean },
    options: RunningOptions,
  ) {
    const { collector, onInput } = options;
    this.collector = collector;
    this.#kernel = kernel;
    this.#options = options;
    this.#request = kernel.request(
      { type: "execute_request", silent: false, allowStdin: onInput !== undefined, ...code },
      {
        onOutput: (message) => collector.add(message),
        onInput: onInput && ((content) => onInput(this.#ask(content))),
      },
    );
  }

  /** Resolves when what the code has written so far is in its collector. */
  flush(): Promise<void> {
    return this.#kernel.flush();
  }

  /** Interrupts the code, but never before it has begun: an idle kernel ignores interrupts. */
  interrupt(): Promise<void> {
    this.#question?.withdraw("The code was interrupted");
    const interrupted = this.#request.begun.then(() => {
      return this.#request.isIdle ? undefined : this.#kernel.interrupt();
    });
    this.#interrupts.push(interrupted);
    return interrupted;
  }

  /** Waits for the end. */
  async outcome(cancelled: AbortSignal): Promise<Outcome> {
    const { collector, keeper, context } = this.#options;
    try {
      const reply = await abortable(this.#request.done, cancelled);
      collector.addPayload(reply.payload);
      const state = this.#interrupts.length === 0 ? "kept" : await this.#settle();
      if (reply.status === "ok") return { state };
      return {
        state,
        failure: { error: codeError(collector.raisedIn(reply), collector.partial(), context) },
      };
    } catch (error) {
      if (cancelled.aborted) {
        this.interrupt().catch(() => {}); // #settle() waits for it
        return { state: await this.#settle(), failure: { error } };
      }
      keeper.takeLoss(); // it is told here
      const own = error instanceof KernelDiedError ? error.with(collector.partial()) : error;
      return { state: "lost", failure: { error: own } };
    } finally {
      this.#question?.withdraw("The code has ended");
    }
  }

  /** What the code asks now: it waits for one answer at a time. */
  #ask(content: JsonObject): InputRequest {
    this.#question?.withdraw("The code asks anew");
    return this.#question = new InputRequest(
      inputQuestion(content),
      (value) => this.#kernel.reply(value),
    );
  }

  /**
   * Waits until the execution is over and none of its interrupts can reach the next one. A kernel
   * that cannot get there in time is replaced.
   */
  async #settle(): Promise<KernelState> {
    const { keeper, graceMs, log } = this.#options;
    const kept = this.#untilSettled().then(() => true, () => false);
    if (!await settledWithin(kept, graceMs / 2) && !this.#request.isIdle) {
      // A few in a thousand of the interrupts that come just as the code begins get lost inside.
      this.interrupt().catch(() => {}); // #untilSettled() waits for it
    }
    if (await settledWithin(kept, graceMs / 2) && await kept) return "kept";
    // Code that has ended leaves a kernel that answers, if late: a busy machine must not cost variables.
    if (this.#request.isIdle && await settledWithin(kept, IDLE_GRACE_MS) && await kept) {
      return "kept";
    }
    if (!this.#kernel.ended.aborted) {
      log.debug("an interrupted execution goes on; its kernel is replaced");
      keeper.replace(new DOMException("The kernel was given up", "AbortError"));
    }
    keeper.takeLoss(); // it is told here
    return "lost";
  }

  /** Resolves when the execution is over and all its interrupts have been seen by the kernel. */
  async #untilSettled(): Promise<void> {
    await Promise.all(this.#interrupts);
    await this.#request.idle;
    await Promise.all(this.#interrupts); // one more may have been sent
    await this.#kernel.settled();
  }
}
