import type { Kernel } from "./kernel.ts";
import type { KernelRequest } from "./kernel_request.ts";
import type { OutputCollector } from "./output_collector.ts";

/** An execution under way. */
export interface Running {
  readonly kernel: Kernel;
  readonly request: KernelRequest;
  readonly collector: OutputCollector;
  readonly interrupts: Promise<void>[];
}

/** Interrupts an execution, but never before it has begun: an idle kernel ignores interrupts. */
export function interrupt(running: Running): Promise<void> {
  const { kernel, request, interrupts } = running;
  const interrupted = request.begun.then(() => request.isIdle ? undefined : kernel.interrupt());
  interrupts.push(interrupted);
  return interrupted;
}

/** Resolves when an execution is over and all its interrupts have been seen by the kernel. */
export async function untilSettled({ kernel, request, interrupts }: Running): Promise<void> {
  await Promise.all(interrupts);
  await request.idle;
  await Promise.all(interrupts); // one more may have been sent
  await kernel.settled();
}
