import type { Logger } from "../../src/base/log.ts";
import { until } from "./wait.ts";

/** Counts the kernels that got ready, spare ones included, from what their host logs. */
export class ReadyCount implements Logger {
  count = 0;

  debug(message: string): void {
    if (/^kernel \S+ is ready$/.test(message)) this.count++;
  }

  info(): void {}
  warn(): void {}
  error(): void {}

  /** Waits until so many are ready. */
  async reached(count: number): Promise<void> {
    await until(`${count} kernels are ready`, () => this.count >= count);
  }
}
