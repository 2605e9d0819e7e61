/** A step of a test: a sentence and what shows it. */
export type Step = (name: string, show: () => Promise<void>) => Promise<void>;

/**
 * Makes the steps of a test that share something costly, such as a kernel.
 *
 * What a step opens in the shared thing lives on, so leaks are looked for at the end of the test. A step
 * that fails is the last one: those after it might wait for ever for what it left behind.
 *
 * @param context The test.
 * @returns The function that runs a step.
 */
export function stepsOf(context: Deno.TestContext): Step {
  return async (name, show) => {
    const step = { name, fn: show, sanitizeOps: false, sanitizeResources: false };
    if (!await context.step(step)) throw new Error(`The test ends with the step "${name}"`);
  };
}
