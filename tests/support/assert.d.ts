/** Thrown by every assertion that does not hold. */
export class AssertionError extends Error {
  constructor(message: string, options?: ErrorOptions);
}
export function assert(condition: unknown, message?: string): asserts condition;
export function assertEquals<T>(actual: T, expected: T, message?: string): void;
export function assertNotEquals<T>(actual: T, expected: T, message?: string): void;
export function assertStrictEquals<T>(
  actual: unknown,
  expected: T,
  message?: string,
): asserts actual is T;
export function assertExists<T>(actual: T, message?: string): asserts actual is NonNullable<T>;
export function assertFalse(condition: unknown, message?: string): asserts condition is false;
export function assertGreater<T>(actual: T, expected: T, message?: string): void;
export function assertGreaterOrEqual<T>(actual: T, expected: T, message?: string): void;
export function assertLess<T>(actual: T, expected: T, message?: string): void;
export function assertLessOrEqual<T>(actual: T, expected: T, message?: string): void;
export function assertInstanceOf<T>(
  actual: unknown,
  // deno-lint-ignore no-explicit-any -- a class with any arguments
  expected: abstract new (...args: any[]) => T,
  message?: string,
): asserts actual is T;
export function assertIsError<E extends Error = Error>(
  error: unknown,
  // deno-lint-ignore no-explicit-any -- as above
  errorClass?: abstract new (...args: any[]) => E,
  messageMatches?: string | RegExp,
  message?: string,
): asserts error is E;
export function assertMatch(actual: string, expected: RegExp, message?: string): void;
export function assertNotMatch(actual: string, expected: RegExp, message?: string): void;
export function assertArrayIncludes<T>(
  actual: ArrayLike<T>,
  expected: ArrayLike<T>,
  message?: string,
): void;
export function assertObjectMatch(
  actual: object,
  expected: Record<PropertyKey, unknown>,
  message?: string,
): void;
export function assertStringIncludes(actual: string, expected: string, message?: string): void;
export function assertRejects<E extends Error = Error>(
  fn: () => PromiseLike<unknown>,
  // deno-lint-ignore no-explicit-any -- as above
  errorClass: abstract new (...args: any[]) => E,
  messageIncludes?: string,
  message?: string,
): Promise<E>;
export function assertRejects(fn: () => PromiseLike<unknown>, message?: string): Promise<unknown>;
export function assertThrows<E extends Error = Error>(
  fn: () => unknown,
  // deno-lint-ignore no-explicit-any -- as above
  errorClass: abstract new (...args: any[]) => E,
  messageIncludes?: string,
  message?: string,
): E;
export function assertThrows(fn: () => unknown, message?: string): unknown;
export function equal(a: unknown, b: unknown): boolean;
export function fail(message?: string): never;
export function unreachable(reason?: string): never;
