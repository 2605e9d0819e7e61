/** Refuses numbers that are not above 0, in options where these come in. */
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
