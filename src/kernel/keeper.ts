import { KernelDiedError, KernelStartError, ProcessError } from "../base/errors.ts";
import { messageOf } from "../base/message_of.ts";
import type { Logger } from "../base/log.ts";
import { anySignal, LONGEST_TIMER_MS } from "../base/signals.ts";
import { endOfGateway, Kernel, type KernelOptions, UnansweredError } from "./kernel.ts";
import { describeExit } from "./traceback.ts";

/** How a {@linkcode KernelKeeper} starts its kernels. */
interface KernelKeeperOptions extends KernelOptions {
  readonly startTimeoutMs: number;
  /** Gives up the start of the first kernel. */
  readonly signal: AbortSignal | undefined;
  /** Whether a second kernel is kept ready to replace the first. */
  readonly spare: boolean;
  /** Makes the token of a kernel that is to run code: see `KernelClientOptions`. */
  readonly toolToken?: () => string;
}

/** One start of a kernel. */
interface Start {
  /** Gives up. */
  readonly signal?: AbortSignal;
  /** What opens the tool server to its code. One that waits for its turn gets it only then. */
  readonly toolToken?: string;
}

/** How often a kernel is started that ends as it starts. */
const MAX_ATTEMPTS = 3;

/**
 * Always has a kernel: one that dies or is given up is replaced by a fresh one with the same
 * set-up: by the spare one where it is ready. Disposing it ends both.
 */
export class KernelKeeper implements AsyncDisposable {
  readonly #options: KernelKeeperOptions;
  readonly #closed = new AbortController();
  readonly #endings = new Set<Promise<void>>();
  readonly #spare: SpareKernel;
  #current: Promise<Kernel>;
  #gatewayEnd: KernelDiedError | undefined;
  #loss: { readonly reason: unknown } | undefined;

  constructor(options: KernelKeeperOptions) {
    this.#options = options;
    this.#spare = new SpareKernel(
      () => this.#startInTime({}),
      (kernel) => void this.#endLater(kernel, new DOMException("It was a spare", "AbortError")),
      options,
    );
    this.#current = this.#watch(
      this.#startInTime({ signal: options.signal, toolToken: options.toolToken?.() }),
    );
    options.gateway.exited?.then((evidence) => {
      const message = `The kernel gateway ended: ${describeExit(evidence)}`;
      const error = new KernelDiedError(message, evidence);
      this.#gatewayEnd = error;
      this.#current.then((kernel) => kernel.abandon(error), () => {}); // it has failed already
      this.#spare.close();
    });
  }

  /** The first kernel, or the fresh one after a replacement. */
  get current(): Promise<Kernel> {
    return this.#current;
  }

  /** The current kernel, where one that could not be started is tried once more. */
  async usable(): Promise<Kernel> {
    const kernel = this.#current;
    try {
      return await kernel;
    } catch {
      // Its start may have failed long ago, and a new failure says more than an old one.
      if (this.#current === kernel) this.#current = this.#next();
      return await this.#current;
    }
  }

  /** Gives the current kernel up, with the reason why, for the spare one or one that is started. */
  replace(reason: unknown): void {
    this.#loss = undefined;
    this.#endLater(this.#current, reason);
    this.#current = this.#next();
  }

  /** Why variables were lost since this was last asked, if a kernel died. */
  takeLoss(): { readonly reason: unknown } | undefined {
    const loss = this.#loss;
    this.#loss = undefined;
    return loss;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const reason = new DOMException("The kernel client was closed", "AbortError");
    this.#closed.abort(reason);
    this.#endLater(this.#current, reason);
    this.#spare.close();
    while (this.#endings.size > 0) await Promise.all(this.#endings);
  }

  /** The spare kernel, or else one that is started, once those before have ended. */
  #next(): Promise<Kernel> {
    const toolToken = this.#options.toolToken?.(); // from here on, theirs are refused
    const ended = Promise.all(this.#endings);
    return this.#watch(this.#takeOver(this.#spare.take(), { ended, toolToken }));
  }

  async #takeOver(
    spare: Promise<Kernel> | undefined,
    { ended, toolToken }: { ended: Promise<unknown>; toolToken: string | undefined },
  ): Promise<Kernel> {
    await ended; // what their code started has ended, too, and cannot meddle any more
    if (spare === undefined) return await this.#startAgain(toolToken);
    try {
      const kernel = await spare;
      await kernel.begin(toolToken);
      return kernel;
    } catch (error) {
      this.#options.log.debug(`The spare kernel is of no use: ${messageOf(error)}`);
      this.#endLater(spare, error);
      return await this.#startAgain(toolToken);
    }
  }

  /** Starts a kernel. A gateway that cannot is of no use any more, and code may have seen to that. */
  async #startAgain(toolToken: string | undefined): Promise<Kernel> {
    try {
      return await this.#startInTime({ toolToken });
    } catch (error) {
      if (!this.#closed.signal.aborted) await this.#options.endGateway?.();
      throw error;
    }
  }

  /** Notices the end of a kernel that is to be the current one. */
  #watch(kernel: Promise<Kernel>): Promise<Kernel> {
    kernel.then(
      (started) => {
        const since = performance.now();
        const onEnd = () => this.#onEnd(kernel, started.ended.reason, since);
        started.ended.addEventListener("abort", onEnd, { once: true });
        if (started.ended.aborted) onEnd();
        else if (this.#current === kernel) this.#spare.prepare();
      },
      () => {}, // told to whoever asks for the kernel
    );
    return kernel;
  }

  async #startInTime({ signal, toolToken }: Start): Promise<Kernel> {
    if (this.#gatewayEnd !== undefined) throw this.#gatewayEnd;
    const { startTimeoutMs } = this.#options;
    const timeout = new AbortController();
    const given = anySignal(timeout.signal, signal, this.#closed.signal);
    const timer = setTimeout(() => {
      const message = `The kernel was not ready within ${startTimeoutMs / 1000} s: where this ` +
        "machine is slow or busy a larger startTimeoutMs helps; `ipybox doctor` says what else to do";
      timeout.abort(this.#startError(message));
    }, Math.min(startTimeoutMs, LONGEST_TIMER_MS));
    try {
      given.throwIfAborted();
      return await this.#startAtLast(given, toolToken);
    } catch (error) {
      throw given.aborted ? error : await this.#explain(error);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Starts a kernel, once more where it ended as it started: the next one gets other ports. */
  async #startAtLast(signal: AbortSignal, toolToken: string | undefined): Promise<Kernel> {
    const { bootstrap } = this.#options;
    const own = toolToken === undefined ? bootstrap : { ...bootstrap, toolToken };
    for (let attempt = 1;; attempt++) {
      try {
        return await Kernel.start({ ...this.#options, bootstrap: own }, signal);
      } catch (error) {
        const isFinal = signal.aborted || attempt === MAX_ATTEMPTS;
        if (isFinal || !(error instanceof UnansweredError)) throw error;
        this.#options.log.debug(`a kernel could not be started, another one is: ${error.message}`);
      }
    }
  }

  #startError(message: string, cause?: unknown): KernelStartError {
    const { stderrTail = "" } = this.#options.gateway;
    return new KernelStartError(message, { exitCode: null, signal: null, stderrTail }, { cause });
  }

  /** Why a kernel could not be started: the end of the gateway explains a failed request better. */
  async #explain(error: unknown): Promise<unknown> {
    if (this.#gatewayEnd === undefined) await endOfGateway(this.#options);
    if (this.#gatewayEnd !== undefined) return this.#gatewayEnd;
    if (error instanceof ProcessError) return error; // it died, and says how
    return this.#startError(`The kernel could not be started: ${messageOf(error)}`, error);
  }

  /** A kernel cannot be used any more. If it is the current one nobody gave it up: it died. */
  #onEnd(kernel: Promise<Kernel>, reason: unknown, since: number): void {
    if (this.#current !== kernel || this.#closed.signal.aborted) return;
    this.#options.log.debug(`a kernel died: ${reason}`);
    if (performance.now() - since < SHORT_LIFE_MS) {
      // Something that keeps killing kernels must not keep this process busy.
      this.#current = Promise.reject(reason);
      this.#current.catch(() => {}); // usable() starts another
      this.#options.toolToken?.(); // what it has left, if anything, has no use for its own any more
      this.#endLater(kernel, reason);
    } else {
      this.replace(reason);
    }
    this.#loss = { reason };
  }

  #endLater(kernel: Promise<Kernel>, reason: unknown): Promise<void> {
    const ending = kernel.then((started) => {
      started.abandon(reason);
      return started[Symbol.asyncDispose]();
    }, () => {}) // there is none to end
      .then(() => {
        this.#endings.delete(ending);
      });
    this.#endings.add(ending);
    return ending;
  }
}

/** How a {@linkcode SpareKernel} is kept. */
interface SpareKernelOptions {
  /** Whether there is to be one. */
  readonly spare: boolean;
  /** Told when one cannot be started or dies. */
  readonly log: Logger;
}

/** Its start waits until the kernel in use has had this time, for its first result comes first. */
const HEAD_START_MS = 500;

/** One that dies sooner is only replaced with the kernel in use: something may keep killing them. */
export const SHORT_LIFE_MS: number = 1000;

/**
 * A second kernel, started and set up ahead, so that a reset need not wait for one.
 *
 * It is an optimization: where it cannot be started or dies nothing is lost, and the next kernel is
 * started when it is needed.
 */
export class SpareKernel {
  readonly #start: () => Promise<Kernel>;
  readonly #end: (kernel: Promise<Kernel>) => void;
  readonly #options: SpareKernelOptions;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #kernel: Promise<Kernel> | undefined;
  #closed = false;

  constructor(
    start: () => Promise<Kernel>,
    end: (kernel: Promise<Kernel>) => void,
    options: SpareKernelOptions,
  ) {
    this.#start = start;
    this.#end = end;
    this.#options = options;
  }

  /** Sees to it that there will be a spare kernel. */
  prepare(): void {
    if (this.#closed || !this.#options.spare) return;
    if (this.#kernel !== undefined || this.#timer !== undefined) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#begin();
    }, HEAD_START_MS);
  }

  /** The spare kernel, which may still be starting. Its taker owns it. */
  take(): Promise<Kernel> | undefined {
    const kernel = this.#kernel;
    this.#kernel = undefined;
    return kernel;
  }

  /** Ends the spare kernel and makes no more of them. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    const kernel = this.take();
    if (kernel !== undefined) this.#end(kernel);
  }

  #begin(): void {
    const kernel = this.#kernel = this.#start();
    kernel.then((started) => {
      const since = performance.now();
      const onEnd = () => this.#onEnd(kernel, since);
      started.ended.addEventListener("abort", onEnd, { once: true });
      if (started.ended.aborted) onEnd();
    }, (error) => {
      this.#options.log.debug(`There is no spare kernel: ${messageOf(error)}`);
      if (this.#kernel === kernel) this.#kernel = undefined;
    });
  }

  #onEnd(kernel: Promise<Kernel>, since: number): void {
    if (this.#kernel !== kernel) return; // it has been taken
    this.#options.log.debug("The spare kernel died");
    this.#kernel = undefined;
    this.#end(kernel);
    if (performance.now() - since >= SHORT_LIFE_MS) this.prepare();
  }
}
