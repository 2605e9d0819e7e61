import { nearestNames } from "./nearest.ts";

/** The purpose of an object of options, as errors name it. */
interface KnownKeys {
  /** The keys that it may have. */
  readonly known: readonly string[];
  /** Such as `CodeExecutor.start()` or `the option approval`. */
  readonly place: string;
}

/** Throws if an object has a key that nobody reads: TypeScript does not check all that a program passes. */
export function refuseUnknownKeys(given: object, { known, place }: KnownKeys): void {
  const wrong = Object.keys(given).find((key) => !known.includes(key));
  if (wrong === undefined) return;
  throw new TypeError(`Unknown key "${wrong}" in ${place}: ${insteadOf(wrong, known)}`);
}

/** Which of the known names may be meant, or all of them if they are few. */
export function insteadOf(wrong: string, known: readonly string[]): string {
  const [near] = nearestNames(wrong, known, 1);
  if (near !== undefined) return `did you mean "${near}"?`;
  return `use ${known.map((name) => `"${name}"`).join(", ")}`;
}
