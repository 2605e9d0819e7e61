/**
 * Leaves a test out and says why.
 *
 * `deno task test` prints the reasons and fails on a test that is left out without one.
 *
 * @param unless What the test needs; it is left out when this is `false`.
 * @param reason Why it is left out then.
 * @param test The test.
 */
export function testIf(
  unless: boolean,
  reason: string,
  test: { name: string; fn: (context: Deno.TestContext) => void | Promise<void> },
): void {
  if (unless) Deno.test(test);
  else Deno.test({ ...test, name: `${test.name} ${SKIPPED}${reason}]`, ignore: true });
}

/** What the name of a test that is left out has before its reason. */
export const SKIPPED = "[skipped: ";
