import type { ExactJson } from "./exact.ts";

/** Parses JSON whose numbers need not keep their spelling; `undefined` for any other text. */
export function parsedJson(text: string): ExactJson | undefined {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Removes properties without a value, which validators reject and which would make equal objects differ. */
export function defined<T extends object>(value: T): T {
  for (const [name, inner] of Object.entries(value)) {
    if (inner === undefined) Reflect.deleteProperty(value, name);
  }
  return value;
}
