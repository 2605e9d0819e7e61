/** A step of a test: a sentence and what shows it. */
export type Step = (name: string, show: () => Promise<void>) => Promise<void>;

/**
 * Makes the steps of a test that share something costly, such as a kernel.
 *
 * What a step opens in the shared thing lives on, so leaks are looked for at the end of the test.
 *
 * @param context The test.
 * @returns The function that runs a step.
 */
export function stepsOf(context: Deno.TestContext): Step {
  return async (name, show) => {
    await context.step({ name, fn: show, sanitizeOps: false, sanitizeResources: false });
  };
}
