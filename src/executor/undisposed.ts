import type { Logger } from "../base/log.ts";

/** The logs of the running executors. */
const logs = new Map<object, Logger>();

/**
 * Warns if the program ends with `Deno.exit()` before the returned object is disposed: files that the
 * executor would have removed stay. Deno fires no event if a signal or an uncaught error ends it.
 */
export function warnUndisposed(executor: object, log: Logger): Disposable {
  logs.set(executor, log);
  globalThis.addEventListener("unload", warn); // once, however often it is added
  return { [Symbol.dispose]: () => void logs.delete(executor) };
}

function warn(): void {
  const [log] = logs.values();
  const count = logs.size;
  log?.warn(
    `The program ends with ${
      count === 1 ? "a CodeExecutor that was" : `${count} CodeExecutors that were`
    } ` +
      "not disposed, so temporary folders stay: use `await using`, or call `[Symbol.asyncDispose]()`",
  );
}
