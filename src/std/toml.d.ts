/** Parses TOML. */
export function parse(text: string): Record<string, unknown>;
