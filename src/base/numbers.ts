/** A day, in milliseconds. */
export const DAY_MS = 86_400_000;

/** Throws if any of the named options is set but is not a number above 0. */
export function requirePositive<Name extends string>(
  options: { readonly [Each in Name]?: number },
  names: readonly Name[],
): void {
  for (const name of names) {
    const value: unknown = options[name];
    if (value === undefined || (typeof value === "number" && value > 0)) continue;
    throw new RangeError(`${name} must be a number above 0, not ${value}`);
  }
}
