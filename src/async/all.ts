/**
 * Waits for all promises, as `Promise.all` does, but leaves none of them running when one fails.
 */
export async function allDone<T extends readonly unknown[] | []>(
  promises: T,
): Promise<{ -readonly [K in keyof T]: Awaited<T[K]> }> {
  await Promise.allSettled(promises);
  return await Promise.all(promises);
}
