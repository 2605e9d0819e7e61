import { nearestNames } from "./nearest.ts";

/** The keys of an options object, and its name in errors. */
interface KnownKeys {
  /** The keys that it may have. */
  readonly known: readonly string[];
  /** Its name, such as `CodeExecutor.start()` or `the option approval`. */
  readonly place: string;
}

/** Throws if an object has an unknown key: TypeScript does not check everything that a program passes. */
export function refuseUnknownKeys(given: object, { known, place }: KnownKeys): void {
  const wrong = Object.keys(given).find((key) => !known.includes(key));
  if (wrong === undefined) return;
  throw new TypeError(`Unknown key "${wrong}" in ${place}: ${insteadOf(wrong, known)}`);
}

/** Suggests the known name that may be meant, or lists all of them. */
export function insteadOf(wrong: string, known: readonly string[]): string {
  const [near] = nearestNames(wrong, known, 1);
  if (near !== undefined) return `did you mean "${near}"?`;
  return `use ${known.map((name) => `"${name}"`).join(", ")}`;
}
