/** The options that {@linkcode parseArgs} knows. */
export interface ParseOptions {
  /** Options that take no value. */
  boolean?: readonly string[];
  /** Options that take a value, which stays a string. */
  string?: readonly string[];
  /** Options that may be given more than once, and are then lists. */
  collect?: readonly string[];
  /** Other names of an option. */
  alias?: Record<string, string | readonly string[]>;
  /** Values of options that were not given. */
  default?: Record<string, unknown>;
  /** Called for each argument that is not a known option; returning `false` drops it. */
  unknown?: (argument: string, key?: string, value?: unknown) => unknown;
}

/** A parsed command line: positional arguments under `_`, options by their names. */
export interface Args {
  _: (string | number)[];
  [name: string]: unknown;
}

export function parseArgs(args: readonly string[], options?: ParseOptions): Args;
