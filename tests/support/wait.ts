type Condition = () => boolean | Promise<boolean>;

/** The longest wait: a busy machine takes its time. */
const LONGEST_MS = 90_000;

/**
 * Waits until something holds of the outside world.
 *
 * @param args The condition, after its words if it does not explain itself.
 * @throws {Error} It does not in time.
 */
export async function until(
  ...args: [holds: Condition] | [what: string, holds: Condition, timeoutMs?: number]
): Promise<void> {
  const [what, holds, timeoutMs = LONGEST_MS] = args.length === 1 ? [`${args[0]}`, args[0]] : args;
  const end = Date.now() + timeoutMs;
  while (!await holds()) {
    if (Date.now() > end) throw new Error(`Not in time: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Waits for what must be rejected, and gives the reason. */
export async function rejection(promise: PromiseLike<unknown>): Promise<unknown> {
  try {
    await promise;
  } catch (reason) {
    return reason;
  }
  throw new Error("It was not rejected");
}
