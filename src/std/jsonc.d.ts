/** Parses JSON with comments and trailing commas. */
export function parse(text: string): unknown;
