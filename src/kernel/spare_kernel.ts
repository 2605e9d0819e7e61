import type { Logger } from "../log.ts";
import type { Kernel } from "./kernel.ts";
import { messageOf } from "./spill_file.ts";

/** How a {@linkcode SpareKernel} is kept. */
export interface SpareKernelOptions {
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
